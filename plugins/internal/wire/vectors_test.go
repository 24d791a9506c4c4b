package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// SDKs with a codec of their own check it by the vectors: what the Go messages
// are on the wire, next to their content in protobuf's JSON.
const vectorsFile = "../../sdk/vectors.json"

var rewrite = flag.Bool("rewrite", false, "write the vectors anew")

type vector struct {
	Name    string          `json:"name"`
	Message string          `json:"message"`
	Hex     string          `json:"hex"`
	JSON    json.RawMessage `json:"json"`
}

func vectors() map[string]proto.Message {
	delay, zero := int64(90_000_000), int64(0)
	version, none := uint64(math.MaxUint64), uint64(0)
	return map[string]proto.Message{
		"to: empty":                            &ToHandler{},
		"to: welcome":                          &ToHandler{Welcome: &Welcome{Protocol: 1, Host: "taskengine 1", Name: "mail", Slots: 512, MaxResultBytes: 16 << 20, Features: []string{"a", "b"}}},
		"to: welcome with the largest payload": &ToHandler{Welcome: &Welcome{Protocol: 1, Features: []string{"rerun"}, MaxPayloadBytes: 1 << 30}},
		"to: welcome of a worker": &ToHandler{Welcome: &Welcome{
			Protocol: 1, Slots: 2, Resumed: true, Received: 300, Runs: []uint64{1, 1 << 40}, Liveness: 10_000_000, Reconnect: 5_000_000, Lease: 4_375_000,
		}},
		"to: runs that were woken": &ToHandler{Runs: []*Run{
			{RunId: 1, Woken: &Woken{By: Woken_BY_SIGNAL, Id: bytes.Repeat([]byte{7}, 16), Name: "päid", At: 1_900_000_000_000_000, Data: []byte{0, 0xff}}},
			{RunId: 2, Woken: &Woken{By: Woken_BY_TIMEOUT}},
			{RunId: 3, Woken: &Woken{By: Woken_BY_USER}},
			{RunId: 4, Woken: &Woken{}},
		}},
		"to: runs of a family": &ToHandler{Runs: []*Run{
			{
				RunId: 1, Woken: &Woken{By: Woken_BY_CHILDREN}, Parent: &Parent{TaskId: bytes.Repeat([]byte{7}, 16), Name: "örder", Index: 300},
				Children: []*ChildSet{
					{Name: "pägé", Added: 300, Done: 1, Failed: 2, Cancelled: 3, Ended: []byte{0x3f}}, {Name: "bound", Added: 2, Shards: []byte{0, 0xff}}, {},
				},
			},
			{RunId: 2, Parent: &Parent{}},
		}},
		"to: stored": &ToHandler{Stored: []*Stored{{RunId: 1, Number: 300}, {RunId: 1 << 40, Number: 1, Error: "nö"}, {}}},
		"to: checked": &ToHandler{Checked: []*Checked{
			{RunId: 1, Number: 300, Refusals: []*Refusal{{Index: 300, Reason: Refusal_REASON_KEY_TAKEN, Message: "nö", TaskId: bytes.Repeat([]byte{7}, 16)}, {}}},
			{RunId: 1 << 40, Number: 1, Error: "nö"},
			{},
		}},
		"to: documents": &ToHandler{Documents: []*DocumentRead{
			{RunId: 1, Number: 300, Version: math.MaxUint64, Data: []byte{0, 0xff}, ExpiresAt: 2_000_000_000_000_000, CreatedAt: 1_900_000_000_000_000, UpdatedAt: -1},
			{RunId: 1 << 40, Number: 1, Error: "nö"},
			{},
		}},
		"to: received": &ToHandler{Received: 64, Heard: 300},
		"to: runs": &ToHandler{Runs: []*Run{
			{
				RunId: 1, TaskId: bytes.Repeat([]byte{0xfe}, 16), Version: math.MaxUint64, Type: "upper", Attempt: 1, Crashes: 300,
				Priority: 9, Key: "käy", OrderingKey: "order", Payload: []byte{0, 1, 0xff}, Headers: map[string]string{"k": "v"},
				TimeLeft: 1_900_000_000_000_000, Checkpoint: []byte("so far"),
			},
			{RunId: 1 << 40, TimeLeft: -1, Headers: map[string]string{"": ""}},
			{Payload: bytes.Repeat([]byte("x"), 200)},
		}},
		"to: cancel, drain, ping": &ToHandler{Cancels: []*Cancel{{RunId: 5, Reason: Cancel_REASON_DEADLINE, Message: "late"}, {}}, Drain: &Drain{}, Ping: math.MaxUint64},
		"from: hello":             &FromHandler{Hello: &Hello{Protocol: 1, Sdk: "python", SdkVersion: "1.0.0", Version: "v7", Types: []string{"a", "b"}, Slots: 16}, Credits: 16},
		"from: result":            &FromHandler{Credits: 1, Finishes: []*Finish{{RunId: 1, Outcome: &Finish_Result{Result: []byte("ok")}}}, Pong: 3},
		"from: empty result":      &FromHandler{Credits: 1, Finishes: []*Finish{{RunId: 1 << 40, Outcome: &Finish_Result{}}}},
		"from: long result":       &FromHandler{Finishes: []*Finish{{RunId: 1, Outcome: &Finish_Result{Result: bytes.Repeat([]byte("y"), 300)}}}},
		"from: error":             &FromHandler{Finishes: []*Finish{{RunId: 2, Outcome: &Finish_Error{Error: &Error{Message: "nö", Class: "funds", Permanent: true}}}}},
		"from: retry":             &FromHandler{Finishes: []*Finish{{RunId: 2, Outcome: &Finish_Error{Error: &Error{Message: "no", RetryDelay: &delay}}}}},
		"from: retry now":         &FromHandler{Finishes: []*Finish{{RunId: 2, Outcome: &Finish_Error{Error: &Error{RetryDelay: &zero}}}}},
		"from: snooze":            &FromHandler{Finishes: []*Finish{{RunId: 3, Outcome: &Finish_Snooze{Snooze: &Snooze{Delay: 1}}}, {RunId: 4, Outcome: &Finish_Snooze{Snooze: &Snooze{}}}}},
		"from: again":             &FromHandler{Finishes: []*Finish{{RunId: 5, Outcome: &Finish_Again{Again: &Again{At: 2_000_000_000_000_000, Result: []byte("so far")}}}, {RunId: 6, Outcome: &Finish_Again{Again: &Again{At: -1}}}}},
		"from: again with a payload and a checkpoint": &FromHandler{Finishes: []*Finish{
			{RunId: 5, Outcome: &Finish_Again{Again: &Again{At: 1, Result: []byte("so far"), Payload: []byte("next\xff"), Checkpoint: []byte("page 2")}}},
			{RunId: 6, Outcome: &Finish_Again{Again: &Again{Payload: []byte{}}}},
			{RunId: 7, Outcome: &Finish_Again{Again: &Again{Checkpoint: []byte{}}}},
		}},
		"from: again by a signal": &FromHandler{Finishes: []*Finish{
			{RunId: 5, Outcome: &Finish_Again{Again: &Again{Result: []byte("so far"), Checkpoint: []byte("page 2"), Wait: &Wait{Names: []string{"paid", "vöid"}}, Delay: 90_000_000}}},
			{RunId: 6, Outcome: &Finish_Again{Again: &Again{At: 2_000_000_000_000_000, Wait: &Wait{Names: []string{"paid"}}}}},
			{RunId: 7, Outcome: &Finish_Again{Again: &Again{Wait: &Wait{}}}},
			{RunId: 8, Outcome: &Finish_Again{Again: &Again{Delay: 1}}},
		}},
		"from: again by children": &FromHandler{Finishes: []*Finish{
			{RunId: 5, Outcome: &Finish_Again{Again: &Again{Result: []byte("so far"), Wait: &Wait{Children: []*ChildrenWait{{Name: "pägé", Count: 300, OrFailed: true}, {Name: "proof"}}}, Delay: 1}}},
		}},
		"from: checkpoints": &FromHandler{Checkpoints: []*Checkpoint{{RunId: 1, Data: []byte("page 2"), Number: 300}, {RunId: 2}}},
		"from: checks": &FromHandler{Pong: 7, Clock: 1_900_000_000_000_000, Checks: []*Check{
			{RunId: 1, Number: 300, Set: "pägé", Children: []*Child{{Type: "a", Payload: []byte("1")}, {Type: "b"}}}, {RunId: 2, Number: 1, Children: []*Child{{Type: "a", Key: "k"}}},
		}},
		"from: reads": &FromHandler{Pong: 7, Clock: 1_900_000_000_000_000, Reads: []*ReadDocument{{RunId: 1, Number: 300, Key: "stöck/a"}, {RunId: 2, Number: 1}}},
		"from: documents": &FromHandler{Finishes: []*Finish{{RunId: 1, Documents: []*WriteDocument{
			{Key: "stöck/a", Data: []byte{0, 0xff}, Replaces: &version, ExpiresAt: 2_000_000_000_000_000}, {Key: "b", Delete: true}, {Key: "c", Data: []byte("x"), Replaces: &none}, {},
		}}}},
		"from: tasks after others": &FromHandler{Finishes: []*Finish{{RunId: 1, Children: []*Child{
			{Type: "late", Key: "k", After: [][]byte{bytes.Repeat([]byte{7}, 16), bytes.Repeat([]byte{0xfe}, 16)}, AfterAny: true},
			{Type: "mail", Priority: proto.Uint32(9), After: [][]byte{bytes.Repeat([]byte{0xfe}, 16)}},
		}}}},
		"from: offer": &FromHandler{
			Hello: &Hello{Protocol: 1, Types: []string{"a"}, Slots: 2},
			Offer: &Offer{Handler: "mail", Labels: map[string]string{"region": "eu", "disk": ""}, Session: bytes.Repeat([]byte{7}, 16), Runs: []uint64{3, 300}, Name: "host:1"},
		},
		"from: pong of a worker": &FromHandler{Pong: 7, Clock: 1_900_000_000_000_000},
		"from: error in doubt":   &FromHandler{Finishes: []*Finish{{RunId: 2, Outcome: &Finish_Error{Error: &Error{Message: "no answer", Class: "timeout", InDoubt: true}}}}},
		"from: leaving":          &FromHandler{Credits: 1, Leaving: true},
		"from: ended":            &FromHandler{Finishes: []*Finish{{RunId: 8, Outcome: &Finish_Ended{Ended: &Ended{}}}}},
		"from: earlier": &FromHandler{Credits: 1, Finishes: []*Finish{{Earlier: &Attempt{
			TaskId: []byte("0123456789abcdef"), Version: 7, Type: "mail",
		}}}},
		"from: refused": &FromHandler{Finishes: []*Finish{{RunId: 7, Outcome: &Finish_Refused{Refused: &Refused{Message: "full"}}}}},
	}
}

func TestTheVectorsAreWhatTheMessagesAreOnTheWire(t *testing.T) {
	if *rewrite {
		writeVectors(t)
	}
	text, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	var stored []vector
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	want := vectors()
	if len(stored) != len(want) {
		t.Errorf("%d vectors are stored, want %d", len(stored), len(want))
	}
	for _, v := range stored {
		m := want[v.Name]
		if m == nil {
			t.Errorf("%s: stored, but not made", v.Name)
			continue
		}
		if diff := cmp.Diff(hex.EncodeToString(encode(t, m)), v.Hex); diff != "" {
			t.Errorf("%s: run the test with -rewrite and mind compatibility (-now +stored):\n%s", v.Name, diff)
		}
	}
}

func encode(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeVectors(t *testing.T) {
	t.Helper()
	var all []vector
	for name, m := range vectors() {
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, text); err != nil { // protojson's own spacing is random
			t.Fatal(err)
		}
		all = append(all, vector{name, string(m.ProtoReflect().Descriptor().Name()), hex.EncodeToString(encode(t, m)), compact.Bytes()})
	}
	slices.SortFunc(all, func(a, b vector) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(vectorsFile, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
