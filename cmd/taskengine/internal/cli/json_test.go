package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestAMessageInJSONIsTheContract(t *testing.T) {
	at := func(s int64) *timestamppb.Timestamp { return timestamppb.New(time.Unix(s, 5000)) }
	const none = `"version":0,"attempt":0,"crashes":0,"priority":0,"headers":{},"history":[],"tombstone":false,"awaits":[],"kept_signals":[],"children":[],"followers":[]}`
	for name, c := range map[string]struct {
		message proto.Message
		want    string
	}{
		"task": {&taskenginev1.Task{
			Id: "i", Type: "t<", State: "error", Version: 1 << 60, Attempt: 2, Crashes: 1, Priority: 5, Key: "k", OrderingKey: "o", Turn: "behind",
			Headers: map[string]string{"h": "v", "a": "<"}, CreatedAt: at(1), ReadyAt: at(2), NextEventAt: at(3), ExpiresAt: at(4), StartedAt: at(5), UpdatedAt: at(6),
			Payload: []byte("{\n\"n\": 1.0}"), Result: []byte("text"), Checkpoint: []byte{0xff}, Error: "e", Node: "n", Progress: &taskenginev1.Progress{Done: 3, At: at(1)},
			History: []*taskenginev1.Attempt{{Number: 1, StartedAt: at(1), EndedAt: at(2), Outcome: "errored", Error: "e", Node: "m"}},
		}, `{"id":"i","type":"t<","state":"error","version":1152921504606846976,"attempt":2,"crashes":1,"priority":5,"key":"k","ordering_key":"o","headers":{"a":"<","h":"v"},` +
			`"created_at":"1970-01-01T00:00:01.000005Z","ready_at":"1970-01-01T00:00:02.000005Z","next_event_at":"1970-01-01T00:00:03.000005Z",` +
			`"expires_at":"1970-01-01T00:00:04.000005Z","started_at":"1970-01-01T00:00:05.000005Z","updated_at":"1970-01-01T00:00:06.000005Z",` +
			`"payload":{"n":1.0},"result_base64":"dGV4dA==","result_text":"text","error":"e",` +
			`"history":[{"number":1,"started_at":"1970-01-01T00:00:01.000005Z","ended_at":"1970-01-01T00:00:02.000005Z","outcome":"errored","error":"e","node":"m"}],` +
			`"progress":{"done":3,"total":0,"at":"1970-01-01T00:00:01.000005Z"},"checkpoint_base64":"/w==","turn":"behind","tombstone":false,"node":"n","awaits":[],"kept_signals":[],"children":[],"followers":[]}`},
		"absent":     {(*taskenginev1.Task)(nil), "{" + none},
		"optional":   {&taskenginev1.Task{InheritedPriority: new(uint32(0))}, "{" + strings.Replace(none, `"tombstone"`, `"inherited_priority":0,"tombstone"`, 1)},
		"nested":     {&taskenginev1.WhyResponse{Task: &taskenginev1.Task{Id: "i"}}, `{"task":{"id":"i",` + none + `,"reasons":[],"waits":[],"silent":[]}`},
		"a duration": {&taskenginev1.Rate{Count: 7, Per: durationpb.New(90 * time.Minute)}, `{"count":7,"per":"1h30m","burst":0}`},
		"a number":   {&taskenginev1.Alert{Value: 0.5}, `{"labels":{},"value":0.5,"notified":[]}`},
	} {
		var out strings.Builder
		if err := (&app{stdout: &out}).printMessage(c.message); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want+"\n", out.String()); diff != "" {
			t.Errorf("%s (-want +got): %s", name, diff)
		}
	}
}

// A field that is added to a message is written without code for it: each kind of field that there is can be written.
func TestEveryMessageOfTheAPIInJSONHasItsFields(t *testing.T) {
	messages := taskenginev1.File_taskengine_v1_taskengine_proto.Messages()
	for i := range messages.Len() {
		m := dynamicpb.NewMessage(messages.Get(i))
		fields := m.Descriptor().Fields()
		want := make(map[string]bool)
		for i := range fields.Len() {
			switch f := fields.Get(i); {
			case f.ContainingOneof() != nil && !f.HasOptionalKeyword(): // one of several
				continue
			case f.IsList() || f.IsMap():
			case f.Kind() == protoreflect.StringKind:
				m.Set(f, protoreflect.ValueOfString("s"))
			case f.Kind() == protoreflect.BytesKind:
				m.Set(f, protoreflect.ValueOfBytes([]byte("1")))
			default:
				m.Set(f, m.NewField(f))
			}
			want[string(fields.Get(i).Name())] = true
		}
		text, err := json.Marshal(messageJSON(m))
		got := make(map[string]any)
		if err != nil || json.Unmarshal(text, &got) != nil {
			t.Fatalf("%s: %s, %v", m.Descriptor().Name(), text, err)
		}
		for name := range want {
			if _, ok := got[name]; !ok {
				t.Errorf("%s has no %s: %s", m.Descriptor().Name(), name, text)
			}
		}
	}
}
