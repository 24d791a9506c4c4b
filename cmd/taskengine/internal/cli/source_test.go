package cli

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// sourceNode is a node that has two sources, and keeps the requests that change something.
type sourceNode struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
	asked  []proto.Message
	orders uint32 // that a source has to carry out after a request
	looks  int    // how many of GetSource show them
}

var aSource = &taskenginev1.Source{
	Name: "orders", Topics: []string{"orders", "returns"}, Group: "g", TaskId: "t0", Lag: new(uint64(7)), Problem: "no topic returns", PartitionCount: 2, Reading: 1,
	Records: 10, Tasks: 6, Unreadable: 3, Skipped: 1, Lost: 20, Paused: &taskenginev1.SourcePause{Since: aTime, Reason: "holidays"},
	Partitions: []*taskenginev1.SourcePartition{
		{
			Topic: "orders", Partition: 0, Position: 3, End: new(uint64(10)), Lag: new(uint64(7)), Node: "n1", Records: 10, Tasks: 6, Unreadable: 3, Skipped: 1, TaskId: "t1",
			Lost: []*taskenginev1.SourceLoss{{Begin: 10, End: 30, At: aTime, Reason: "they were deleted"}},
		},
		{Topic: "orders", Partition: 1, Message: "no broker answers", TaskId: "t2"},
	},
}

const aSourceJSON = `{"name":"orders","topics":["orders","returns"],"group":"g","paused":{"since":"2026-03-28T01:30:00Z","reason":"holidays"},"orders":0,"problem":"no topic returns",` +
	`"lag":7,"partition_count":2,"reading":1,"records":10,"tasks":6,"unreadable":3,"skipped":1,"lost":20,` +
	`"partitions":[{"topic":"orders","partition":0,"position":3,"end":10,"lag":7,"node":"n1","records":10,"tasks":6,"unreadable":3,"skipped":1,` +
	`"lost":[{"begin":10,"end":30,"at":"2026-03-28T01:30:00Z","reason":"they were deleted"}],"task_id":"t1"},` +
	`{"topic":"orders","partition":1,"position":0,"message":"no broker answers","records":0,"tasks":0,"unreadable":0,"skipped":0,"lost":[],"task_id":"t2"}],"task_id":"t0"}`

// source returns a source that has orders.
func (n *sourceNode) source() *taskenginev1.Source {
	s := proto.CloneOf(aSource)
	s.Orders = n.orders
	return s
}

func (n *sourceNode) ListSources(context.Context, *taskenginev1.ListSourcesRequest) (*taskenginev1.ListSourcesResponse, error) {
	return &taskenginev1.ListSourcesResponse{Sources: []*taskenginev1.Source{{Name: "all", Pattern: "a.*", Group: "g", TaskId: "t9"}, aSource}}, nil
}

func (n *sourceNode) GetSource(_ context.Context, req *taskenginev1.GetSourceRequest) (*taskenginev1.GetSourceResponse, error) {
	if n.looks--; n.looks == 0 {
		n.orders = 0
	}
	n.asked = append(n.asked, req)
	return &taskenginev1.GetSourceResponse{Source: n.source()}, nil
}

func (n *sourceNode) PauseSource(_ context.Context, req *taskenginev1.PauseSourceRequest) (*taskenginev1.PauseSourceResponse, error) {
	n.asked = append(n.asked, req)
	return &taskenginev1.PauseSourceResponse{Source: n.source()}, nil
}

func (n *sourceNode) ResumeSource(_ context.Context, req *taskenginev1.ResumeSourceRequest) (*taskenginev1.ResumeSourceResponse, error) {
	n.asked = append(n.asked, req)
	return &taskenginev1.ResumeSourceResponse{Source: n.source()}, nil
}

func (n *sourceNode) SeekSource(_ context.Context, req *taskenginev1.SeekSourceRequest) (*taskenginev1.SeekSourceResponse, error) {
	n.asked = append(n.asked, req)
	return &taskenginev1.SeekSourceResponse{Source: n.source(), Moves: []*taskenginev1.SourceMove{
		{Topic: "orders", Partition: 0, Position: 30, Target: 10}, {Topic: "orders", Partition: 1, Position: 2, Target: 5}, {Topic: "orders", Partition: 2, Position: 4, Target: 4},
	}}, nil
}

func (n *sourceNode) ListPlatforms(context.Context, *taskenginev1.ListPlatformsRequest) (*taskenginev1.ListPlatformsResponse, error) {
	return nil, connect.NewError(connect.CodeNotFound, errors.New("it reads topics"))
}

func (n *sourceNode) ListSliceSources(context.Context, *taskenginev1.ListSliceSourcesRequest) (*taskenginev1.ListSliceSourcesResponse, error) {
	return &taskenginev1.ListSliceSourcesResponse{}, nil
}

// on runs a subcommand of source in this process against a node.
func (n *sourceNode) on(t *testing.T, args ...string) result {
	t.Helper()
	_, h := taskenginev1connect.NewTaskServiceHandler(n)
	s := httptest.NewServer(h)
	defer s.Close()
	return cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, "", append([]string{"source"}, args...)...)
}

func TestSourcesAreOrderedAsTheFlagsSay(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for line, want := range map[string]proto.Message{
		"show a":                    &taskenginev1.GetSourceRequest{Name: "a"},
		"pause a":                   &taskenginev1.PauseSourceRequest{Name: "a"},
		"pause a --reason holidays": &taskenginev1.PauseSourceRequest{Name: "a", Reason: "holidays"},
		"resume a":                  &taskenginev1.ResumeSourceRequest{Name: "a"},
		"seek a --begin":            &taskenginev1.SeekSourceRequest{Name: "a", To: &taskenginev1.SeekSourceRequest_Begin{Begin: true}},
		"seek a --end --topic t":    &taskenginev1.SeekSourceRequest{Name: "a", Topic: "t", To: &taskenginev1.SeekSourceRequest_End{End: true}},
		"seek a --time 2026-01-01T01:00:00+01:00 --dry-run": &taskenginev1.SeekSourceRequest{Name: "a", DryRun: true, To: &taskenginev1.SeekSourceRequest_Time{Time: at}},
		"seek a --offset 0 --topic t --partition 0": &taskenginev1.SeekSourceRequest{
			Name: "a", Topic: "t", Partition: new(uint32), To: &taskenginev1.SeekSourceRequest_Offset{},
		},
	} {
		n := new(sourceNode)
		if r := n.on(t, strings.Fields(line)...); r.code != 0 {
			t.Errorf("%s ends with %d: %s", line, r.code, r.stderr)
			continue
		}
		if diff := cmp.Diff([]proto.Message{want}, n.asked, protocmp.Transform()); diff != "" {
			t.Errorf("%s asks for (-want +got)\n%s", line, diff)
		}
	}
	for _, line := range []string{
		"seek a", "seek a --begin --end", "seek a --begin --offset 0 --topic t --partition 1", "seek a --offset 1", "seek a --offset 1 --topic t",
		"seek a --begin --partition 1", "seek a --offset -1 --topic t --partition 1", "seek a --time now",
	} {
		n := new(sourceNode)
		if r := n.on(t, strings.Fields(line)...); r.code != exit.Usage || len(n.asked) > 0 {
			t.Errorf("%s ends with %d, and has asked for %v: %s", line, r.code, n.asked, r.stderr)
		}
	}
}

func TestACommandWaitsUntilTheSourceHasCarriedOutItsOrder(t *testing.T) {
	for _, line := range []string{"pause a", "resume a", "seek a --begin"} {
		n := &sourceNode{orders: 2, looks: 2}
		if r := n.on(t, strings.Fields(line)...); r.code != 0 || len(n.asked) != 3 {
			t.Errorf("%s ends with %d, after %v: %s", line, r.code, n.asked, r.stderr)
		}
		n = &sourceNode{orders: 2}
		if r := n.on(t, append(strings.Fields(line), "--timeout", "1ms")...); r.code != exit.Unavailable || !strings.Contains(r.stderr, "the order is stored") || !strings.Contains(r.stderr, "no topic returns") {
			t.Errorf("%s ends with %d: %s", line, r.code, r.stderr)
		}
		n = &sourceNode{orders: 2}
		if r := n.on(t, append(strings.Fields(line), "--timeout", "0s")...); r.code != 0 || len(n.asked) != 1 {
			t.Errorf("%s without a wait ends with %d, after %v: %s", line, r.code, n.asked, r.stderr)
		}
	}
}

func TestASourceInJSONIsTheContract(t *testing.T) {
	for line, want := range map[string]string{
		"list": `{"name":"all","topics":[],"pattern":"a.*","group":"g","orders":0,"partition_count":0,"reading":0,"records":0,"tasks":0,"unreadable":0,"skipped":0,"lost":0,"partitions":[],"task_id":"t9"}` +
			"\n" + aSourceJSON,
		"show orders":                   aSourceJSON,
		"pause orders":                  aSourceJSON,
		"resume orders":                 aSourceJSON,
		"seek orders --begin --dry-run": `{"name":"orders","dry_run":true,"moves":[{"topic":"orders","partition":0,"position":30,"target":10},{"topic":"orders","partition":1,"position":2,"target":5},{"topic":"orders","partition":2,"position":4,"target":4}]}`,
	} {
		if r := new(sourceNode).on(t, append(strings.Fields(line), "-o", "json")...); r.stdout != want+"\n" {
			t.Errorf("%s writes\n%s, want\n%s", line, r.stdout, want)
		}
	}
}

func TestASourceIsShownToPeople(t *testing.T) {
	for line, want := range map[string]string{
		"show orders": `source     orders
topics     orders,returns
group      g
paused     since 2026-03-28T01:30:00Z: holidays
lag        7
reading    1 of 2 partitions
records    10; tasks 6, unreadable 3, skipped 1
lost       orders/0: offsets 10 to 29, noticed 2026-03-28T01:30:00Z: they were deleted
task       t0
problem    no topic returns

TOPIC   PARTITION  POSITION  END  LAG  NODE  TASKS  UNREADABLE  SKIPPED  MESSAGE
orders  0          3         10   7    n1    6      3           1
orders  1          0         ?    ?    -     0      0           0        no broker answers
`,
		"list": `SOURCE  TOPICS          LAG  READING  RECORDS  TASKS  UNREADABLE  SKIPPED  LOST  PAUSED  PROBLEM
all     pattern a.*     ?    0 of 0   0        0      0           0        0     no
orders  orders,returns  7    1 of 2   10       6      3           1        20    yes     no topic returns
`,
		"seek orders --begin": `TOPIC   PARTITION  FROM  TO  READS
orders  0          30    10  20 offsets again
orders  1          2     5   3 offsets left out
orders  2          4     4   stays
`,
	} {
		if r := new(sourceNode).on(t, strings.Fields(line)...); r.stdout != want {
			t.Errorf("%s writes (-want +got)\n%s", line, cmp.Diff(want, r.stdout))
		}
	}
	sourceText(new(taskenginev1.Source)) // of a node that says nothing
}
