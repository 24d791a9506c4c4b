package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// sink is where a host writes to.
type sink struct {
	bytes.Buffer
	closed bool
}

func (s *sink) Close() error { s.closed = true; return nil }

func TestEachMessageToTheHandlerIsALine(t *testing.T) {
	var out sink
	l := NewLines(bufio.NewReader(strings.NewReader("")), &out, 100)
	for _, f := range []*ToHandler{
		{Welcome: &Welcome{Protocol: 1, MaxResultBytes: 7}},
		{Runs: []*Run{{RunId: 1, Type: "a", Payload: []byte("x\n")}, {RunId: 2}}, Cancels: []*Cancel{{RunId: 1}}, Ping: 3, Drain: &Drain{}},
		{Stored: []*Stored{{Number: 4}}, Checked: []*Checked{{Number: 5}}, Documents: []*DocumentRead{{Number: 6, Data: []byte("x")}, {Number: 7}}},
		{},
	} {
		if err := l.Send(f); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"welcome":{"protocol":1,"max_result_bytes":"7"}}
{"runs":[{"run_id":"1","type":"a","payload":"eAo="}]}
{"runs":[{"run_id":"2"}]}
{"cancels":[{"run_id":"1"}]}
{"ping":"3"}
{"drain":{}}
{"stored":[{"number":"4"}]}
{"checked":[{"number":"5"}]}
{"documents":[{"number":"6","data":"eA=="}]}
{"documents":[{"number":"7"}]}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := l.CloseSend(); err != nil || !out.closed {
		t.Errorf("CloseSend: %v", err)
	}
}

func TestLinesOfTheHandlerAreFrames(t *testing.T) {
	in := "\n" + `{"hello":{"protocol":1,"types":["a"],"slots":1},"credits":1}` + "\r\n\n" +
		`{"finishes":[{"run_id":1,"result":"eA=="}],"later":{"x":[1]}}` + "\n" + `{"pong":"3"}`
	l := NewLines(bufio.NewReaderSize(strings.NewReader(in), 16), new(sink), 1000)
	for _, want := range []*FromHandler{
		{Hello: &Hello{Protocol: 1, Types: []string{"a"}, Slots: 1}, Credits: 1},
		{Finishes: []*Finish{{RunId: 1, Outcome: &Finish_Result{Result: []byte("x")}}}},
		{Pong: 3},
	} {
		got, err := l.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(proto.Message(want), proto.Message(got), protocmp.Transform()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if _, err := l.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestWhatIsNoFrameIsAnError(t *testing.T) {
	for in, want := range map[string]string{
		"hello\n":                       "no frame",
		"[1]\n":                         "no frame",
		`{"pong":-1}`:                   "no frame",
		`{"pong":"1"`:                   "no frame",
		strings.Repeat(" ", 200):        "too long",
		strings.Repeat("x", 200) + "\n": "too long",
	} {
		_, err := NewLines(bufio.NewReaderSize(strings.NewReader(in), 16), new(sink), 100).Recv()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want it to say %q", in, err, want)
		}
	}
}
