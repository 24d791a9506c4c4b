package answer_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/handlers/internal/answer"
	"github.com/taskengine/taskengine/task"
)

func TestTheEnvelopeHasWhatTheAttemptHas(t *testing.T) {
	id := parseID(t, "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69")
	at := time.Date(2026, 11, 29, 12, 0, 0, 1000, time.UTC)
	full := &task.Task{
		ID: id, Version: 3, Attempt: 2, Priority: 5, Type: "report", Key: "k", OrderingKey: "o", Headers: map[string]string{"a": "<b>"},
		Payload: []byte(`{"n": 1}`), Notes: task.NewNotes(task.Progress{}, []byte("page 30")),
		Signals:  &task.Signals{Wake: task.Wake{By: task.BySignal, Signal: task.Signal{ID: id, Name: "paid", At: at, Data: []byte("\x00\xff")}}},
		Parent:   &task.Parent{ID: id, Name: "month", Index: 7},
		Children: &task.Children{Sets: []task.ChildSet{{Name: "page", Added: 3, Done: 1, Failed: 1, Cancelled: 1}, {Name: "mail", Added: 1}}},
	}
	for want, row := range map[string]*task.Task{
		`{"attempt":1,"id":"0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69","payload_text":"","priority":0,"type":"report","version":1}`: {
			ID: id, Version: 1, Attempt: 1, Type: "report",
		},
		`{"attempt":1,"id":"0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69","payload_text":"not JSON","priority":0,"type":"report","version":1,"woken_by":"timeout"}`: {
			ID: id, Version: 1, Attempt: 1, Type: "report", Payload: []byte("not JSON"), Signals: &task.Signals{Wake: task.Wake{By: task.ByTimeout}},
		},
		`{"attempt":2,"checkpoint_text":"page 30","children":{"mail":{"added":1,"cancelled":0,"done":0,"failed":0},"page":{"added":3,"cancelled":1,"done":1,"failed":1}},` +
			`"headers":{"a":"<b>"},"id":"0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69","key":"k","ordering_key":"o","parent":{"id":"0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69","index":7,"name":"month"},` +
			`"payload":{"n":1},"payload_text":"{\"n\": 1}","priority":5,"type":"report","version":3,"woken_by":"signal",` +
			`"woken_signal":{"at":"2026-11-29T12:00:00.000001Z","data_base64":"AP8=","id":"0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69","name":"paid"}}`: full,
	} {
		got, err := answer.Envelope(row)
		if diff := cmp.Diff(want+"\n", string(got)); err != nil || diff != "" {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
	}
}

func TestAPayloadThatIsNestedTooDeeplyIsText(t *testing.T) {
	for depth, isValue := range map[int]bool{9_990: true, 10_000: false, 10_001: false} {
		deep := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		got, err := answer.Envelope(&task.Task{Payload: []byte(deep)})
		if err != nil || !json.Valid(got) || strings.Contains(string(got), `"payload":`) != isValue || !strings.Contains(string(got), `"payload_text":"[[[`) {
			t.Errorf("%d levels give %d bytes, %v", depth, len(got), err)
		}
	}
}

func FuzzAnEnvelopeIsJSONWithThePayload(f *testing.F) {
	for _, payload := range []string{"", "a", `{"a": 1}`, "\xff", "\"\u2028<\"", "1e400", `"\ud800"`} {
		f.Add([]byte(payload))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		text, err := answer.Envelope(&task.Task{Payload: payload})
		if err != nil {
			t.Skip(err)
		}
		var got struct {
			Payload json.RawMessage `json:"payload"`
			Text    *string         `json:"payload_text"`
			Base64  *string         `json:"payload_base64"`
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if (got.Text != nil) != utf8.Valid(payload) || (got.Base64 == nil) != (got.Text != nil) || got.Text != nil && *got.Text != string(payload) {
			t.Errorf("%q is in %s", payload, text)
		}
		if got.Base64 != nil && *got.Base64 != base64.StdEncoding.EncodeToString(payload) {
			t.Errorf("%q is in %s", payload, text)
		}
		if isJSON := utf8.Valid(payload) && json.Valid(payload); isJSON != (got.Payload != nil) && len(payload) < 20_000 {
			t.Errorf("%q is in %s", payload, text)
		}
	})
}
