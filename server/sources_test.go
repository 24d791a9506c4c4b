package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/storage/memory"
)

// someSources are sources that a test describes. The sources of a node are tested with real brokers beside their own package.
type someSources struct {
	all   map[string]*server.Source
	names []string
	fails error // of orders

	counts map[string]server.SourceCounts

	mu     sync.Mutex
	orders []string // guarded by mu
}

func (s *someSources) Names() []string { return s.names }

func (s *someSources) Source(_ context.Context, name string) (*server.Source, error) {
	if one, ok := s.all[name]; ok {
		return one, nil
	}
	return nil, fmt.Errorf("%w: %s", server.ErrNoSource, name)
}

func (s *someSources) order(name, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.all[name]; !ok {
		return server.ErrNoSource
	}
	s.orders = append(s.orders, text)
	return s.fails
}

func (s *someSources) Pause(_ context.Context, name, reason string) error {
	return s.order(name, "pause "+reason)
}

func (s *someSources) Resume(_ context.Context, name string) error { return s.order(name, "resume") }

func (s *someSources) Seek(_ context.Context, name string, to server.SourceSeek) error {
	return s.order(name, fmt.Sprintf("seek %q %v %v %v", to.Topic, to.Begin, to.End, to.Time))
}

func (s *someSources) Plan(_ context.Context, name string, to server.SourceSeek) ([]server.SourceMove, error) {
	if !to.Begin && !to.End && to.Time.IsZero() && to.Offset == nil {
		return nil, server.ErrSourceSeek
	}
	return []server.SourceMove{{Topic: "t", Partition: 1, From: 5, To: 2}}, s.fails
}

func (s *someSources) Counts() map[string]server.SourceCounts { return s.counts }

func newSourceNode(t *testing.T, sources server.Sources) *node {
	t.Helper()
	n := new(node)
	var err error
	if n.engine, err = engine.Open(t.Context(), engine.Config{Store: memory.New(), Name: "n1"}); err != nil {
		t.Fatal(err)
	}
	n.api = listen(t, server.NewAPI(server.APIConfig{Engine: n.engine, Sources: sources}), false)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		n.engine.Close(ctx)
	})
	return n
}

func TestANodeWithoutSourcesListsNone(t *testing.T) {
	c := newSourceNode(t, nil).client(t)
	if res, err := c.ListSources(t.Context(), &taskenginev1.ListSourcesRequest{}); err != nil || len(res.GetSources()) != 0 {
		t.Error(res, err)
	}
	_, err := c.PauseSource(t.Context(), &taskenginev1.PauseSourceRequest{Name: "orders"})
	if connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "no sources") {
		t.Error(err)
	}
}

func TestAListOfSourcesHasTheirSumsAndNoPartitions(t *testing.T) {
	partition := func(i int32, node string) server.SourcePartition {
		return server.SourcePartition{
			Topic: "t", Partition: i, Node: node, Position: 5, End: 9, Lag: 4, Records: 5, Tasks: 2, Unreadable: 1, Skipped: 2,
			Lost: []server.SourceLoss{{From: 1, To: 4, At: time.Unix(1, 0), Reason: "deleted"}},
		}
	}
	s := &server.Source{Name: "b", Topics: []string{"t"}, Lag: 8, Partitions: []server.SourcePartition{partition(0, "n1"), partition(1, "")}}
	c := newSourceNode(t, &someSources{names: []string{"a", "b"}, all: map[string]*server.Source{"a": {Name: "a", Lag: -1}, "b": s}}).client(t)
	res, err := c.ListSources(t.Context(), &taskenginev1.ListSourcesRequest{})
	if err != nil || len(res.GetSources()) != 2 || res.GetSources()[0].Lag != nil {
		t.Fatal(res, err)
	}
	b := res.GetSources()[1]
	if b.GetLag() != 8 || b.GetPartitionCount() != 2 || b.GetReading() != 1 || b.GetRecords() != 10 || b.GetTasks() != 4 || b.GetUnreadable() != 2 || b.GetSkipped() != 4 || b.GetLost() != 6 || len(b.GetPartitions()) != 0 {
		t.Errorf("%v", b)
	}
	one, err := c.GetSource(t.Context(), &taskenginev1.GetSourceRequest{Name: "b"})
	if err != nil || len(one.GetSource().GetPartitions()) != 2 || one.GetSource().GetPartitions()[1].GetLost()[0].GetReason() != "deleted" {
		t.Error(one, err)
	}
}

func TestErrorsAboutSourcesHaveTheirCodes(t *testing.T) {
	sources := &someSources{names: []string{"orders"}, all: map[string]*server.Source{"orders": {Name: "orders"}}}
	c := newSourceNode(t, sources).client(t)
	is := func(err error, code connect.Code, text string) {
		t.Helper()
		if connect.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want the code %v and %q", err, code, text)
		}
	}
	_, err := c.GetSource(t.Context(), &taskenginev1.GetSourceRequest{Name: "ordrs"})
	is(err, connect.CodeNotFound, "did you mean orders?")
	_, err = c.ResumeSource(t.Context(), &taskenginev1.ResumeSourceRequest{Name: "something else"})
	is(err, connect.CodeNotFound, "something else")
	_, err = c.PauseSource(t.Context(), &taskenginev1.PauseSourceRequest{Name: "orders", Reason: strings.Repeat("x", 1001)})
	is(err, connect.CodeInvalidArgument, "1000")
	for _, wrong := range []*taskenginev1.SeekSourceRequest{
		{Name: "orders", DryRun: true},
		{Name: "orders", Partition: new(uint32(1 << 31)), To: &taskenginev1.SeekSourceRequest_Begin{Begin: true}},
		{Name: "orders", To: &taskenginev1.SeekSourceRequest_Offset{Offset: 1 << 63}},
		{Name: "orders", To: &taskenginev1.SeekSourceRequest_Time{Time: timestamppb.New(time.Time{})}},
	} {
		_, err := c.SeekSource(t.Context(), wrong)
		is(err, connect.CodeInvalidArgument, "")
	}
	if len(sources.orders) > 0 {
		t.Errorf("%q", sources.orders)
	}
	begin := &taskenginev1.SeekSourceRequest{Name: "orders", To: &taskenginev1.SeekSourceRequest_Begin{Begin: true}, DryRun: true}
	for failed, code := range map[error]connect.Code{
		server.ErrSourceBusy: connect.CodeAborted, server.ErrSourceBrokers: connect.CodeUnavailable, engine.ErrNotAllowed: connect.CodeFailedPrecondition,
	} {
		sources.fails = fmt.Errorf("it says why: %w", failed)
		_, err := c.PauseSource(t.Context(), &taskenginev1.PauseSourceRequest{Name: "orders"})
		is(err, code, "it says why")
		_, err = c.SeekSource(t.Context(), begin)
		is(err, code, "it says why")
	}
}

func TestASeekThatIsOnlyPlannedChangesNothing(t *testing.T) {
	sources := &someSources{names: []string{"orders"}, all: map[string]*server.Source{"orders": {Name: "orders"}}}
	c := newSourceNode(t, sources).client(t)
	begin := &taskenginev1.SeekSourceRequest{Name: "orders", Topic: "t", To: &taskenginev1.SeekSourceRequest_Begin{Begin: true}, DryRun: true}
	res, err := c.SeekSource(t.Context(), begin)
	if err != nil || len(res.GetMoves()) != 1 || res.GetMoves()[0].GetPosition() != 5 || res.GetSource().GetName() != "orders" || len(sources.orders) != 0 {
		t.Error(res, err, sources.orders)
	}
	begin.DryRun = false
	if _, err = c.SeekSource(t.Context(), begin); err != nil || len(sources.orders) != 1 || sources.orders[0] != `seek "t" true false 0001-01-01 00:00:00 +0000 UTC` {
		t.Error(err, sources.orders)
	}
}

func TestWhatANodeDoesForItsSourcesIsInItsMetrics(t *testing.T) {
	n := newNode(t)
	n.metrics.WatchSources(&someSources{counts: map[string]server.SourceCounts{
		"orders": {Records: 8, Tasks: 5, Unreadable: 1, Skipped: 2, Lost: 20, Lag: 7, Reading: 3, Waits: true}, "idle": {},
	}})
	text, got := scrape(t, n)
	for name, want := range map[string]float64{
		"lag": 7, "partitions": 3, "waiting": 1, "records_total": 8, "tasks_total": 5, "unreadable_total": 1, "skipped_total": 2, "lost_offsets_total": 20,
	} {
		idle, ok := got[`taskengine_source_`+name+`{source="idle"}`]
		if got[`taskengine_source_`+name+`{source="orders"}`] != want || idle != 0 || !ok {
			t.Errorf("%s is not %v, or %v of the idle source is not 0", name, want, idle)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "taskengine_source_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if err != nil {
		t.Error(err)
	}
}
