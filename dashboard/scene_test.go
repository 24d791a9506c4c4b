package dashboard_test

import (
	"encoding/binary"
	"math"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/dashboard"
	pb "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// Ids of tasks of the scene.
const (
	sceneTask     = "01936f3e-7a10-7c31-9d52-4b1fe0a8c2d7"
	sceneWorkflow = "01936f3e-5c02-7aa4-8f11-92c5b7d1e630"
	sceneHolder   = "01936f3e-7b44-7d18-b2c0-6e5a1f94d8b3"
)

// scene is an API with the answers of two nodes of a shop: always the same, but for the time.
type scene map[string]proto.Message

// ServeHTTP implements [http.Handler].
func (s scene) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	answer := s[name]
	if answer == nil {
		http.Error(w, "the scene has no "+name, http.StatusNotFound)
		return
	}
	content, err := proto.Marshal(answer)
	if err != nil {
		panic(err)
	}
	if name != "TaskLogs" {
		w.Header().Set("Content-Type", "application/proto")
		_, _ = w.Write(content)
		return
	}
	w.Header().Set("Content-Type", "application/connect+proto")
	_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(content))), content...))
	_, _ = w.Write([]byte("\x02\x00\x00\x00\x02{}"))
}

func newScene() scene {
	return scene{
		"Overview": sceneOverview(), "ListNodes": sceneNodes(), "ListErrors": sceneErrors(), "ListLimits": &pb.ListLimitsResponse{Limits: []*pb.Limit{sceneLimit()}},
		"WhyLimit": sceneWhyLimit(), "Get": &pb.GetResponse{Task: sceneOneTask()}, "Why": sceneWhy(), "TaskLogs": sceneLines(), "GetWorkflow": sceneGraph(),
	}
}

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(-d)) }

func sceneCounts(perSecond, seconds, failed, p50 float64, mean time.Duration) *pb.OverviewCounts {
	n := uint64(perSecond * seconds)
	bad := uint64(failed * seconds)
	return &pb.OverviewCounts{
		Submitted: n, Started: n, Done: n - bad, Retried: bad, Busy: durationpb.New(time.Duration(n) * mean),
		Delays: []*pb.Delays{{Seconds: p50, Count: n * 60 / 100}, {Seconds: 2 * p50, Count: n * 38 / 100}, {Seconds: 5 * p50, Count: max(n*2/100, 1)}},
	}
}

func sceneOverview() *pb.OverviewResponse {
	const minute = 60
	res := &pb.OverviewResponse{}
	for i, name := range []string{"berlin-1", "berlin-2"} {
		n := &pb.NodeOverview{Node: name, Id: name, Window: durationpb.New(minute * time.Second), CountedAt: ago(7 * time.Second)}
		for _, t := range []struct {
			name                 string
			rate, failed         float64
			mean                 time.Duration
			running              uint32
			ready, waiting, errs int64
			oldest               time.Duration
		}{
			{"invoice", 31, 0, 25 * time.Millisecond, 1, 0, 12, 0, 0},
			{"mail", 58.5, 0.4, 160 * time.Millisecond, 10, 214, 43, 0, 5 * time.Second},
			{"payment", 12, 0.2, 310 * time.Millisecond, 4, 0, 18, 37, 0},
			{"search-index", 140, 0, 6 * time.Millisecond, 1, 0, 0, 0, 0},
		} {
			one := &pb.TypeOverview{Type: t.name, Running: t.running, Counts: sceneCounts(t.rate, minute, t.failed, 0.0011, t.mean)}
			if i == 0 { // which counts
				one.Submitted, one.Waiting, one.Error = t.ready, t.waiting, t.errs
				if t.oldest > 0 {
					one.OldestReadyAt = ago(t.oldest)
				}
			}
			n.Types = append(n.Types, one)
		}
		for at := 59; at >= 0; at-- {
			wave := 1 + 0.25*math.Sin(float64(at)/7) + 0.06*math.Sin(float64(at*5))
			failed := 0.5
			if at > 20 && at < 26 {
				failed = 22
			}
			n.Points = append(n.Points, &pb.OverviewPoint{
				From: ago(time.Duration(at+1) * 10 * time.Second), Until: ago(time.Duration(at) * 10 * time.Second),
				Counts: sceneCounts(241*wave, 10, failed, 0.0011*wave, 40*time.Millisecond),
			})
		}
		res.Nodes = append(res.Nodes, n)
	}
	return res
}

func sceneNodes() *pb.ListNodesResponse {
	node := func(name string, here bool, running uint32, waiting uint64) *pb.Node {
		return &pb.Node{Name: name, Id: name, Here: here, Version: "v1.4.0", Status: &pb.NodeStatus{
			Roles: []string{"monitor"}[:map[bool]int{true: 1}[here]], Shards: 128, ShardsTotal: 256, Running: running, Slots: 64, Waiting: waiting,
		}}
	}
	return &pb.ListNodesResponse{Nodes: []*pb.Node{node("berlin-1", true, 16, 121), node("berlin-2", false, 15, 93)}}
}

func sceneErrors() *pb.ListErrorsResponse {
	return &pb.ListErrorsResponse{Complete: true, Tasks: 37, Read: 37, Kinds: []*pb.ErrorKind{
		{Kind: "4f0c2a91b7e3", Pattern: "the bank answers 503 for account …", Tasks: 31, Types: []string{"payment"}, Last: ago(4 * time.Minute)},
		{Kind: "9b21d07ce548", Pattern: "card … has expired", Tasks: 6, Types: []string{"payment"}, Last: ago(3 * time.Hour)},
	}}
}

func sceneLimit() *pb.Limit {
	return &pb.Limit{
		Name: "provider", Configured: true, Scope: "cluster", Max: 20, ConfiguredMax: 20, Used: 10,
		Uses: []*pb.LimitUse{{Node: "berlin-1", Used: 10, Held: 10}, {Node: "berlin-2", Used: 10, Held: 10}},
	}
}

func sceneWhyLimit() *pb.WhyLimitResponse {
	res := &pb.WhyLimitResponse{Limit: sceneLimit(), Queued: []*pb.LimitQueue{{Type: "mail", Tasks: 121, Node: "berlin-1"}, {Type: "mail", Tasks: 93, Node: "berlin-2"}}}
	for i := range 4 {
		res.Tasks = append(res.Tasks, &pb.LimitTask{Id: sceneHolder[:35] + string(rune('0'+i)), Type: "mail", Slots: 5, StartedAt: ago(time.Duration(i) * time.Second), Node: "berlin-" + string(rune('1'+i%2))})
	}
	return res
}

func sceneOneTask() *pb.Task {
	attempt := func(number uint32, begin, took time.Duration, text string) *pb.Attempt {
		return &pb.Attempt{Number: number, StartedAt: ago(begin), EndedAt: ago(begin - took), Outcome: "errored", Error: text, Node: "berlin-2"}
	}
	return &pb.Task{
		Id: sceneTask, Type: "mail", State: "submitted", Version: 7, Attempt: 2, Priority: 5, Key: "order-48213", CreatedAt: ago(100 * time.Second), ReadyAt: ago(100 * time.Second),
		UpdatedAt: ago(9 * time.Second), NextEventAt: ago(9 * time.Second), Headers: map[string]string{"region": "eu"}, Payload: []byte(`{"order": 48213, "to": "[redacted]", "template": "shipped"}`),
		Error:   "the provider answers 429: slow down",
		History: []*pb.Attempt{attempt(1, 96*time.Second, 12*time.Second, "the provider answers 503"), attempt(2, 60*time.Second, 21*time.Second, "the provider answers 429: slow down")},
	}
}

func sceneWhy() *pb.WhyResponse {
	return &pb.WhyResponse{
		Node: "berlin-1", NotedSince: ago(9 * time.Hour), Task: sceneOneTask(),
		Reasons: []*pb.Reason{{Code: "limit", Text: "the limit provider is full: 20 of 20 slots are taken", Limit: "provider", Used: 10, Max: 20, Holders: []string{sceneHolder}}, {Code: "queue", Text: "3 tasks of the type are before it", Used: 3}},
		Waits: []*pb.Wait{
			{Code: "running", Text: "it ran", Total: durationpb.New(33 * time.Second), From: ago(96 * time.Second), Until: ago(39 * time.Second)},
			{Code: "retry", Text: "its next attempt", Total: durationpb.New(54 * time.Second), From: ago(84 * time.Second), Until: ago(9 * time.Second)},
			{Code: "limit", Text: "the limit provider", Total: durationpb.New(13 * time.Second), From: ago(100 * time.Second), Until: ago(0)},
		},
	}
}

func sceneLines() *pb.TaskLogsResponse {
	line := func(attempt uint32, before time.Duration, level, text, attrs string) *pb.LogLine {
		return &pb.LogLine{Attempt: attempt, Time: ago(before), Level: level, Message: text, Attrs: attrs, Node: "berlin-2"}
	}
	return &pb.TaskLogsResponse{Complete: true, Cursor: "c", Lines: []*pb.LogLine{
		line(1, 96*time.Second, "INFO", "render", `{"template":"shipped"}`),
		line(1, 84*time.Second, "ERROR", "send", `{"status":503}`),
		line(2, 60*time.Second, "INFO", "render", `{"template":"shipped"}`),
		line(2, 39*time.Second, "WARN", "send", `{"status":429,"retry_after":"30s"}`),
	}}
}

func sceneGraph() *pb.GetWorkflowResponse {
	step := func(name, typ, state string, began, took time.Duration, after ...string) *pb.WorkflowStep {
		s := &pb.WorkflowStep{Name: name, Type: typ, State: state, After: after, Count: 1}
		if state != "pending" {
			s.Began, s.TaskIds = ago(began), []string{sceneHolder}
		} else {
			s.Waits = after
		}
		if state == "done" {
			s.Ended, s.Done = ago(began-took), 1
		}
		return s
	}
	parcels := step("parcels", "label", "running", 50*time.Second, 0, "reserve")
	parcels.Count, parcels.Done = 3, 2
	parcels.TaskIds = []string{sceneHolder, sceneTask, sceneWorkflow}
	return &pb.GetWorkflowResponse{Workflow: &pb.Workflow{
		Name: "order", Task: &pb.Task{Id: sceneWorkflow, Type: "taskengine.workflow", State: "waiting", CreatedAt: ago(3 * time.Minute), UpdatedAt: ago(20 * time.Second)},
		Steps: []*pb.WorkflowStep{
			step("reserve", "stock", "done", 180*time.Second, 2*time.Second), step("pay", "payment", "done", 170*time.Second, 110*time.Second, "reserve"),
			parcels, step("invoice", "invoice", "running", 20*time.Second, 0, "pay"), step("ship", "carrier", "pending", 0, 0, "pay", "parcels"), step("mail", "mail", "pending", 0, 0, "ship", "invoice"),
		},
	}}
}

// scenePlanner has the bounds of the scene, and a prediction.
type scenePlanner struct{}

func (scenePlanner) Types() map[string]dashboard.PlannedType {
	return map[string]dashboard.PlannedType{"mail": {Weight: 1, Limits: []string{"provider"}}, "payment": {Weight: 1, Concurrency: 8}, "invoice": {Weight: 1}, "search-index": {Weight: 1}}
}

func (scenePlanner) Curves() string { return "/etc/taskengine/curves.json" }

func (scenePlanner) Predict(objective string, _ map[string]dashboard.TypeLoad) (*dashboard.Prediction, error) {
	return &dashboard.Prediction{
		Met: true, HeadRoom: 1.06, First: "limit provider", P50: 1100 * time.Microsecond, P99: 5400 * time.Microsecond, Rate: 241.5, Measured: time.Now().Add(-72 * time.Hour),
		Uses: []dashboard.Share{{Name: "limit provider", Share: 0.94}, {Name: "slots", Share: 0.23}, {Name: "disk", Share: 0.19}, {Name: "cpu", Share: 0.11}}, Load: "objective: " + objective + "\n",
	}, nil
}
