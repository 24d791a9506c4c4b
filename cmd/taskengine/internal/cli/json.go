package cli

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The types below are the contract of -o json, described in docs/cli.md: fields are
// only ever added to them.

type taskJSON struct {
	ID            string            `json:"id"`
	Type          string            `json:"type"`
	State         string            `json:"state"`
	Version       uint64            `json:"version"`
	Attempt       uint32            `json:"attempt"`
	Crashes       uint32            `json:"crashes"`
	Priority      uint32            `json:"priority"`
	Key           string            `json:"key,omitempty"`
	OrderingKey   string            `json:"ordering_key,omitempty"`
	CreatedAt     *time.Time        `json:"created_at,omitempty"`
	ReadyAt       *time.Time        `json:"ready_at,omitempty"`
	NextEventAt   *time.Time        `json:"next_event_at,omitempty"`
	ExpiresAt     *time.Time        `json:"expires_at,omitempty"`
	StartedAt     *time.Time        `json:"started_at,omitempty"`
	UpdatedAt     *time.Time        `json:"updated_at,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	Payload       json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64 string            `json:"payload_base64,omitempty"`
	PayloadText   string            `json:"payload_text,omitempty"`
	Result        json.RawMessage   `json:"result,omitempty"`
	ResultBase64  string            `json:"result_base64,omitempty"`
	ResultText    string            `json:"result_text,omitempty"`
	Error         string            `json:"error,omitempty"`
	Progress      *progressJSON     `json:"progress,omitempty"`
	Checkpoint    []byte            `json:"checkpoint_base64,omitempty"`
	History       []attemptJSON     `json:"history,omitempty"`
}

type progressJSON struct {
	Done    uint64     `json:"done"`
	Total   uint64     `json:"total,omitempty"`
	Message string     `json:"message,omitempty"`
	At      *time.Time `json:"at,omitempty"`
}

type attemptJSON struct {
	Number    uint32     `json:"number"`
	Outcome   string     `json:"outcome"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Error     string     `json:"error,omitempty"`
}

// shardsJSON is what a database holds; sets of shards are like 0-127,200.
type shardsJSON struct {
	Database string `json:"database"`
	Shards   string `json:"shards"`
	Leaving  string `json:"leaving,omitempty"`
	To       string `json:"to,omitempty"`
}

type coordinationJSON struct {
	Database string `json:"database"`
	Driver   string `json:"driver,omitempty"`
	ID       string `json:"id,omitempty"`
	Name     string `json:"name,omitempty"`
}

type receiptJSON struct {
	ID      string `json:"id"`
	Created bool   `json:"created"`
}

type loadedJSON struct {
	Added    int64 `json:"added"`
	Existing int64 `json:"existing"`
	Bad      int64 `json:"bad"`
}

type countJSON struct {
	Type  string `json:"type"`
	State string `json:"state"`
	Count int64  `json:"count"`
}

type settledJSON struct {
	Settled bool       `json:"settled"`
	Type    string     `json:"type,omitempty"`
	Tasks   []taskJSON `json:"tasks,omitempty"`
	Missing []string   `json:"missing,omitempty"`
}

type whyJSON struct {
	Task    taskJSON     `json:"task"`
	Reasons []reasonJSON `json:"reasons"`
}

type reasonJSON struct {
	Code    string     `json:"code"`
	Text    string     `json:"text"`
	Limit   string     `json:"limit,omitempty"`
	Value   string     `json:"value,omitempty"`
	Used    int64      `json:"used,omitempty"`
	Max     int64      `json:"max,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	Holders []string   `json:"holders,omitempty"`
}

type typeJSON struct {
	Name       string `json:"name"`
	Configured bool   `json:"configured"`
	Handled    bool   `json:"handled"`
	Paused     bool   `json:"paused"`
	Running    uint32 `json:"running"`
}

type migrationJSON struct {
	Version   int        `json:"version"`
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"applied_at,omitempty"`
	Newer     bool       `json:"newer,omitempty"`
}

type differenceJSON struct {
	Object string `json:"object"`
	Is     string `json:"is,omitempty"`
	Want   string `json:"want,omitempty"`
}

type logLineJSON struct {
	Time    time.Time       `json:"time"`
	Attempt uint32          `json:"attempt"`
	Level   string          `json:"level"`
	Message string          `json:"message"`
	Attrs   json.RawMessage `json:"attrs,omitempty"`
	Dropped uint64          `json:"dropped,omitempty"`
	Cut     bool            `json:"cut,omitempty"`
}

func taskToJSON(t *taskenginev1.Task) taskJSON {
	j := taskJSON{
		ID: t.GetId(), Type: t.GetType(), State: t.GetState(), Version: t.GetVersion(),
		Attempt: t.GetAttempt(), Crashes: t.GetCrashes(), Priority: t.GetPriority(),
		Key: t.GetKey(), OrderingKey: t.GetOrderingKey(), Headers: t.GetHeaders(), Error: t.GetError(),
		CreatedAt: timeToJSON(t.GetCreatedAt()), ReadyAt: timeToJSON(t.GetReadyAt()),
		NextEventAt: timeToJSON(t.GetNextEventAt()), ExpiresAt: timeToJSON(t.GetExpiresAt()),
		StartedAt: timeToJSON(t.GetStartedAt()), UpdatedAt: timeToJSON(t.GetUpdatedAt()),
	}
	j.Payload, j.PayloadBase64 = bytesToJSON(t.GetPayload())
	if j.Payload == nil {
		j.PayloadText = textOf(t.GetPayload())
	}
	j.Result, j.ResultBase64 = bytesToJSON(t.GetResult())
	if j.Result == nil {
		j.ResultText = textOf(t.GetResult())
	}
	j.Checkpoint = t.GetCheckpoint()
	if p := t.GetProgress(); p != nil {
		j.Progress = &progressJSON{Done: p.GetDone(), Total: p.GetTotal(), Message: p.GetMessage(), At: timeToJSON(p.GetAt())}
	}
	for _, a := range t.GetHistory() {
		j.History = append(j.History, attemptJSON{
			Number: a.GetNumber(), Outcome: a.GetOutcome(), Error: a.GetError(),
			StartedAt: timeToJSON(a.GetStartedAt()), EndedAt: timeToJSON(a.GetEndedAt()),
		})
	}
	return j
}

func timeToJSON(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime()
	return &at
}

// textOf returns bytes that are text, and "" for others.
func textOf(b []byte) string {
	if !utf8.Valid(b) {
		return ""
	}
	return string(b)
}

// bytesToJSON returns bytes as they are if they are JSON, and otherwise in base64.
func bytesToJSON(b []byte) (json.RawMessage, string) {
	switch {
	case len(b) == 0:
		return nil, ""
	case utf8.Valid(b) && json.Valid(b):
		return b, ""
	}
	return nil, base64.StdEncoding.EncodeToString(b)
}

func whyToJSON(res *taskenginev1.WhyResponse) whyJSON {
	j := whyJSON{Task: taskToJSON(res.GetTask()), Reasons: []reasonJSON{}}
	for _, r := range res.GetReasons() {
		j.Reasons = append(j.Reasons, reasonJSON{
			Code: r.GetCode(), Text: r.GetText(), Limit: r.GetLimit(), Value: r.GetValue(),
			Used: r.GetUsed(), Max: r.GetMax(), Until: timeToJSON(r.GetUntil()), Holders: r.GetHolders(),
		})
	}
	return j
}
