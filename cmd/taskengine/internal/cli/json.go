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
	Turn          string            `json:"turn,omitempty"`
	Inherited     *uint32           `json:"inherited_priority,omitempty"`
	CreatedAt     *time.Time        `json:"created_at,omitempty"`
	ReadyAt       *time.Time        `json:"ready_at,omitempty"`
	NextEventAt   *time.Time        `json:"next_event_at,omitempty"`
	ExpiresAt     *time.Time        `json:"expires_at,omitempty"`
	StartedAt     *time.Time        `json:"started_at,omitempty"`
	Node          string            `json:"node,omitempty"`
	UpdatedAt     *time.Time        `json:"updated_at,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	Payload       json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64 string            `json:"payload_base64,omitempty"`
	PayloadText   string            `json:"payload_text,omitempty"`
	Result        json.RawMessage   `json:"result,omitempty"`
	ResultBase64  string            `json:"result_base64,omitempty"`
	ResultText    string            `json:"result_text,omitempty"`
	Tombstone     bool              `json:"tombstone,omitempty"`
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
	Node      string     `json:"node,omitempty"`
	Error     string     `json:"error,omitempty"`
}

// shardsJSON has the shards of a database; sets of shards are like 0-127,200.
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
	Outcome string `json:"outcome"`
	Warning string `json:"warning,omitempty"`
}

type loadedJSON struct {
	Added    int64 `json:"added"`
	Existing int64 `json:"existing"`
	Replaced int64 `json:"replaced,omitempty"`
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
	Cluster bool       `json:"cluster,omitempty"`
	Held    int64      `json:"held,omitempty"`
	Waiting int64      `json:"waiting,omitempty"`

	Head      string `json:"head,omitempty"`
	HeadState string `json:"head_state,omitempty"`
}

type typeJSON struct {
	Name       string `json:"name"`
	Configured bool   `json:"configured"`
	Handled    bool   `json:"handled"`
	Paused     bool   `json:"paused"`
	Running    uint32 `json:"running"`

	Nodes string   `json:"nodes,omitempty"`
	RunBy []string `json:"run_by,omitempty"`
}

// limitJSON is a limit as it is in force. Rates are like 20/1s.
type limitJSON struct {
	Name            string             `json:"name"`
	Value           string             `json:"value,omitempty"`
	Configured      bool               `json:"configured"`
	Of              string             `json:"of,omitempty"`
	Per             string             `json:"per,omitempty"`
	Scope           string             `json:"scope,omitempty"`
	Max             uint32             `json:"max"`
	Rate            string             `json:"rate,omitempty"`
	Burst           uint32             `json:"burst,omitempty"`
	Paused          bool               `json:"paused"`
	ConfiguredMax   uint32             `json:"configured_max"`
	ConfiguredRate  string             `json:"configured_rate,omitempty"`
	ConfiguredBurst uint32             `json:"configured_burst,omitempty"`
	Used            *int64             `json:"used,omitempty"`
	Held            int64              `json:"held,omitempty"`
	Setting         *limitSettingJSON  `json:"setting,omitempty"`
	Inherited       []limitSettingJSON `json:"inherited,omitempty"`
	Removed         bool               `json:"removed,omitempty"`
}

type limitSettingJSON struct {
	Value   string     `json:"value,omitempty"`
	Max     *uint32    `json:"max,omitempty"`
	Rate    string     `json:"rate,omitempty"`
	Burst   uint32     `json:"burst,omitempty"`
	Paused  bool       `json:"paused"`
	Version uint64     `json:"version"`
	By      string     `json:"by,omitempty"`
	Node    string     `json:"node,omitempty"`
	At      *time.Time `json:"at,omitempty"`
	Problem string     `json:"problem,omitempty"`
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
		Key: t.GetKey(), OrderingKey: t.GetOrderingKey(), Turn: t.GetTurn(), Inherited: t.InheritedPriority, Headers: t.GetHeaders(), Error: t.GetError(), Tombstone: t.GetTombstone(), Node: t.GetNode(),
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
			Number: a.GetNumber(), Outcome: a.GetOutcome(), Node: a.GetNode(), Error: a.GetError(),
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
			Cluster: r.GetCluster(), Held: r.GetHeld(), Waiting: r.GetWaiting(), Head: r.GetHead(), HeadState: r.GetHeadState(),
		})
	}
	return j
}

func limitToJSON(l *taskenginev1.Limit) limitJSON {
	j := limitJSON{
		Name: l.GetName(), Value: l.GetValue(), Configured: l.GetConfigured(), Of: l.GetOf(), Per: l.GetPer(), Scope: l.GetScope(),
		Max: l.GetMax(), Rate: rateText(l.GetRate()), Burst: l.GetRate().GetBurst(), Paused: l.GetPaused(),
		ConfiguredMax: l.GetConfiguredMax(), ConfiguredRate: rateText(l.GetConfiguredRate()), ConfiguredBurst: l.GetConfiguredRate().GetBurst(),
	}
	used := l.GetUsed()
	j.Used, j.Held = &used, l.GetHeld()
	if s := l.GetSetting(); s != nil {
		setting := limitSettingToJSON(s)
		j.Setting = &setting
	}
	for _, s := range l.GetInherited() {
		j.Inherited = append(j.Inherited, limitSettingToJSON(s))
	}
	return j
}

func limitSettingToJSON(s *taskenginev1.LimitSetting) limitSettingJSON {
	j := limitSettingJSON{
		Value: s.GetValue(), Max: s.Max, Rate: rateText(s.GetRate()), Burst: s.GetRate().GetBurst(), Paused: s.GetPaused(),
		Version: s.GetVersion(), By: s.GetBy(), Node: s.GetNode(), At: timeToJSON(s.GetAt()), Problem: s.GetProblem(),
	}
	if s.Rate != nil && j.Rate == "" {
		j.Rate = noRate
	}
	return j
}

// whyLimitJSON has the current counts of a limit.
type whyLimitJSON struct {
	Limit     limitJSON        `json:"limit"`
	Tasks     []limitTaskJSON  `json:"tasks"`
	Queued    []limitQueueJSON `json:"queued"`
	NextStart *time.Time       `json:"next_start,omitempty"`
	Nodes     []limitNodeJSON  `json:"nodes,omitempty"`
	Problem   string           `json:"nodes_problem,omitempty"`
}

type limitNodeJSON struct {
	Node  string     `json:"node"`
	Held  int64      `json:"held"`
	Want  int64      `json:"want"`
	Since *time.Time `json:"since,omitempty"`
}

type limitTaskJSON struct {
	ID        string     `json:"id"`
	Type      string     `json:"type"`
	Slots     uint32     `json:"slots"`
	StartedAt *time.Time `json:"started_at,omitempty"`
}

type limitQueueJSON struct {
	Type  string `json:"type"`
	Tasks int64  `json:"tasks"`
}

func whyLimitToJSON(res *taskenginev1.WhyLimitResponse) whyLimitJSON {
	j := whyLimitJSON{
		Limit: limitToJSON(res.GetLimit()), NextStart: timeToJSON(res.GetNextStart()),
		Tasks: []limitTaskJSON{}, Queued: []limitQueueJSON{}, Problem: res.GetNodesProblem(),
	}
	for _, t := range res.GetTasks() {
		j.Tasks = append(j.Tasks, limitTaskJSON{t.GetId(), t.GetType(), t.GetSlots(), timeToJSON(t.GetStartedAt())})
	}
	for _, q := range res.GetQueued() {
		j.Queued = append(j.Queued, limitQueueJSON{q.GetType(), q.GetTasks()})
	}
	for _, n := range res.GetNodes() {
		j.Nodes = append(j.Nodes, limitNodeJSON{n.GetNode(), n.GetHeld(), n.GetWant(), timeToJSON(n.GetSince())})
	}
	return j
}
