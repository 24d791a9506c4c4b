package sources_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/sources"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/kafka/consume"
	"github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// brokers is the cluster of all tests of this package.
var brokers *kafkatest.Cluster

func TestMain(m *testing.M) {
	os.Exit(kafkatest.Run(m, 1, func(c *kafkatest.Cluster) { brokers = c }))
}

// node is an engine that reads a source called orders, behind an API.
type node struct {
	taskenginev1connect.TaskServiceClient
	t       *testing.T
	engine  *engine.Engine
	read    *consume.Sources
	sources *sources.Sources
	audit   bytes.Buffer // of requests, which the test makes one after another
	ran     atomic.Int64 // tasks
}

// newNode returns a node that reads a new topic with two partitions.
func newNode(t *testing.T, topic string) *node {
	t.Helper()
	client, err := kafkatest.Client(brokers.Brokers())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	kafkatest.CreateTopic(t, kadm.NewClient(client), 2, 1, nil, topic)
	return open(t, topic, brokers.Brokers())
}

func open(t *testing.T, topic string, at []string) *node {
	t.Helper()
	n := &node{t: t}
	var err error
	store := memory.New()
	n.read, err = consume.New(consume.Config{Store: store, Log: slog.New(slog.DiscardHandler), Sources: []consume.Source{{
		Definition: source.Definition{Name: "orders", Topics: []string{topic}, Group: "group", Type: "order"},
		Connection: kafka.Connection{Name: "main", Brokers: at},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	handlers, types := n.read.Handlers(), map[string]policy.Type{"order": policy.DefaultType()}
	maps.Copy(types, n.read.Policies())
	handlers["order"] = task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { n.ran.Add(1); return nil, nil })
	n.engine, err = engine.Open(t.Context(), engine.Config{
		Name: "n1", Store: store, Policies: policy.Set{Slots: 8, Types: types}, Handlers: handlers, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	n.sources = sources.Of(n.read, n.engine)
	api := httptest.NewServer(server.NewAPI(server.APIConfig{Engine: n.engine, Sources: n.sources, Audit: slog.New(slog.NewJSONHandler(&n.audit, nil))}))
	n.TaskServiceClient = taskenginev1connect.NewTaskServiceClient(http.DefaultClient, api.URL)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		api.Close()
		n.read.Stop()
		if err := n.engine.Close(ctx); err != nil {
			t.Error(err)
		}
		_ = n.read.Close(ctx)
	})
	return n
}

// produce writes n records to each of the two partitions of a topic.
func (n *node) produce(topic string, records int) {
	n.t.Helper()
	client, err := kafkatest.Client(brokers.Brokers(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		n.t.Fatal(err)
	}
	defer client.Close()
	for i := range records {
		for p := range int32(2) {
			if err := client.ProduceSync(n.t.Context(), &kgo.Record{Topic: topic, Partition: p, Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
				n.t.Fatal(err)
			}
		}
	}
}

// await returns the source as soon as it is as wanted.
func (n *node) await(what string, is func(*taskenginev1.Source) bool) *taskenginev1.Source {
	n.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		res, err := n.GetSource(n.t.Context(), &taskenginev1.GetSourceRequest{Name: "orders"})
		if err != nil {
			n.t.Fatal(err)
		}
		if is(res.GetSource()) {
			return res.GetSource()
		}
		if time.Now().After(end) {
			n.t.Fatalf("%s: not within a minute: %v", what, res.GetSource())
		}
	}
}

func TestASourceIsShownAndOrderedByTheAPI(t *testing.T) {
	const topic = "shown"
	n := newNode(t, topic)
	if s := n.await("a source that has not begun", func(*taskenginev1.Source) bool { return true }); s.GetProblem() == "" || s.Lag != nil {
		t.Errorf("%v", s)
	}
	if err := n.read.Apply(t.Context(), n.engine); err != nil {
		t.Fatal(err)
	}
	n.produce(topic, 5)
	s := n.await("the records", func(s *taskenginev1.Source) bool {
		return s.GetTasks() == 10 && s.GetLag() == 0 && s.GetReading() == 2 && s.GetProblem() == ""
	})
	p := s.GetPartitions()[1]
	if s.GetGroup() != "group" || s.GetPartitionCount() != 2 || s.GetTopics()[0] != topic || p.GetNode() != "n1" || p.GetPosition() != 5 || p.GetEnd() != 5 || p.Lag == nil {
		t.Errorf("%v", s)
	}
	if c := n.sources.Counts()["orders"]; c.Tasks != 10 || c.Reading != 2 || c.Waits {
		t.Errorf("%+v", c)
	}

	if _, err := n.PauseSource(t.Context(), &taskenginev1.PauseSourceRequest{Name: "orders", Reason: "holidays"}); err != nil {
		t.Fatal(err)
	}
	n.await("the pause", func(s *taskenginev1.Source) bool {
		return s.GetOrders() == 0 && s.GetPaused().GetReason() == "holidays" && s.GetReading() == 0
	})
	begin := &taskenginev1.SeekSourceRequest{
		Name: "orders", Topic: topic, Partition: new(uint32(1)), To: &taskenginev1.SeekSourceRequest_Offset{Offset: 2}, DryRun: true,
	}
	for _, begin.DryRun = range []bool{true, false} {
		res, err := n.SeekSource(t.Context(), begin)
		if err != nil || len(res.GetMoves()) != 1 || res.GetMoves()[0].GetPosition() != 5 || res.GetMoves()[0].GetTarget() != 2 {
			t.Fatal(res, err)
		}
	}
	n.await("the move", func(s *taskenginev1.Source) bool {
		return s.GetOrders() == 0 && s.GetPartitions()[1].GetPosition() == 2
	})
	if _, err := n.ResumeSource(t.Context(), &taskenginev1.ResumeSourceRequest{Name: "orders"}); err != nil {
		t.Fatal(err)
	}
	n.await("the records that are read again", func(s *taskenginev1.Source) bool { return s.GetTasks() == 13 && n.ran.Load() == 13 })

	for _, wrong := range []*taskenginev1.SeekSourceRequest{
		{Name: "orders"},
		{Name: "orders", Topic: "other", To: &taskenginev1.SeekSourceRequest_End{End: true}},
		{Name: "orders", Topic: topic, Partition: new(uint32(2)), To: &taskenginev1.SeekSourceRequest_End{End: true}},
		{Name: "orders", To: &taskenginev1.SeekSourceRequest_Offset{Offset: 1}},
	} {
		if _, err := n.SeekSource(t.Context(), wrong); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	if _, err := n.PauseSource(t.Context(), &taskenginev1.PauseSourceRequest{Name: "order"}); connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "did you mean orders?") {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(n.audit.String()), "\n")
	for i, want := range []string{
		`"verb":"PauseSource","outcome":"ok","what":{"name":"orders","reason":"holidays"}`,
		`"verb":"SeekSource","outcome":"ok","what":{"dry_run":true,"name":"orders","offset":2,"partition":1,`,
		`"verb":"SeekSource","outcome":"ok","what":{"name":"orders","offset":2,"partition":1,"topic":"shown"}`,
		`"verb":"ResumeSource","outcome":"ok"`,
		`"verb":"SeekSource","outcome":"invalid_argument"`,
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("the audit has no line with %s:\n%s", want, n.audit.String())
		}
	}
}

func TestASourceTakesOrdersWithoutBrokers(t *testing.T) {
	n := open(t, "none", []string{"127.0.0.1:1"})
	if err := n.read.Apply(t.Context(), n.engine); err != nil {
		t.Fatal(err)
	}
	if s := n.await("the problem", func(s *taskenginev1.Source) bool { return strings.Contains(s.GetProblem(), "no broker") }); s.Lag != nil {
		t.Errorf("%v", s)
	}
	if _, err := n.PauseSource(t.Context(), &taskenginev1.PauseSourceRequest{Name: "orders"}); err != nil {
		t.Fatal(err)
	}
	n.await("the pause", func(s *taskenginev1.Source) bool { return s.GetPaused() != nil && s.GetOrders() == 0 })
	if err := n.sources.Seek(t.Context(), "orders", server.SourceSeek{}); !errors.Is(err, server.ErrSourceSeek) || !errors.Is(err, consume.ErrInvalid) {
		t.Error(err)
	}
	if err := n.sources.Resume(t.Context(), "other"); !errors.Is(err, server.ErrNoSource) {
		t.Error(err)
	}
}
