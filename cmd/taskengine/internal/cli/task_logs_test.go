package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestALineOfALogInJSONIsTheContract(t *testing.T) {
	var out strings.Builder
	a := &app{stdout: &out, output: jsonText}
	for _, l := range []*taskenginev1.LogLine{
		{Attempt: 2, Time: timestamppb.New(time.Unix(1, 5000)), Level: "INFO+2", Message: "m<", Attrs: `{"n":1.0}`, Dropped: 3, Cut: true},
		{Time: timestamppb.New(time.Unix(1, 0)), Level: "DEBUG", Attrs: "{"},
	} {
		if err := a.showLogLine(l); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"attempt":2,"time":"1970-01-01T00:00:01.000005Z","level":"INFO+2","message":"m<","dropped":3,"cut":true,"attrs":{"n":1.0}}` + "\n" +
		`{"attempt":0,"time":"1970-01-01T00:00:01Z","level":"DEBUG","dropped":0,"cut":false,"message":""}` + "\n"
	if out.String() != want {
		t.Errorf("they are %s", out.String())
	}
}

func TestStreamsThatBreakOffAreTakenUpAgain(t *testing.T) {
	refused := connect.NewError(connect.CodeUnavailable, errors.New("stopping"))
	broken := connect.NewError(connect.CodeInternal, errors.New("unexpected EOF"))
	for name, c := range map[string]struct {
		err   error
		heard time.Duration // ago; 0 is never
		again bool
	}{
		"amid a stream":            {broken, time.Second, true},
		"before anything was said": {broken, 0, false},
		"long ago":                 {broken, 2 * (pollFor + patience), false},
		"while the node stops":     {refused, time.Second, true},
	} {
		tail := &streams[taskenginev1.TaskLogsResponse]{}
		if c.heard > 0 {
			tail.node.heard = time.Now().Add(-c.heard)
		}
		if got := tail.mayComeBack(c.err); got != c.again {
			t.Errorf("%s: it is taken up again: %v", name, got)
		}
	}
}

func TestANoteSaysWhereAttemptsRanWithoutLinesOnTheNode(t *testing.T) {
	all := []*taskenginev1.RanElsewhere{
		{Attempt: 1, Node: "b", Alive: true},
		{Attempt: 2, Node: "c"},
		{Attempt: 3, Node: "a", Alive: true, Here: true}, // with lines here
		{Attempt: 4, Node: "b", Alive: true},
		{Attempt: 5, Node: "a", Alive: true, Here: true},
	}
	want := []string{
		"attempts 1, 4 ran on node b, which has no lines of it",
		"attempt 2 ran on node c, which is not alive now: its lines are shown when it runs again",
		"attempt 5 ran on node a, which has no lines of it",
	}
	if got := elsewhereNotes(all, map[uint32]bool{3: true}); !slices.Equal(got, want) {
		t.Errorf("they are %q", got)
	}
	if got := elsewhereNotes(nil, nil); len(got) > 0 {
		t.Errorf("of no attempt they are %q", got)
	}
}
