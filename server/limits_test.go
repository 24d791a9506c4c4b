package server_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// newLimitNode starts a node. Its tasks of type pay count for the limits partner and payouts, and
// wait to be released.
func newLimitNode(t *testing.T) *node {
	t.Helper()
	n := &node{release: make(chan struct{})}
	pay := policy.DefaultType()
	pay.Limits = []string{"partner"}
	var err error
	n.engine, err = engine.Open(t.Context(), engine.Config{
		Store: memory.New(), Name: "n1",
		Policies: policy.Set{
			Slots: 8, Types: map[string]policy.Type{"pay": pay},
			Limits: map[string]policy.Limit{
				"payouts": {Name: "payouts", Max: 4, Cluster: true},
				"partner": {
					Name: "partner", Of: "payouts", Max: 1, Per: "payload.p", Overrides: map[string]int{"big*": 2},
					Rate: policy.Rate{Count: 1000, Per: time.Second, Burst: 7},
				},
			},
		},
		Handlers: map[string]task.Handler{"pay": task.HandlerFunc(func(ctx context.Context, _ *task.Task) ([]byte, error) {
			select {
			case <-n.release:
				return nil, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.api = listen(t, server.NewAPI(server.APIConfig{Engine: n.engine}), false)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // whatever runs is cancelled
		n.engine.Close(ctx)
	})
	return n
}

// ptr returns a pointer to a value of a request.
func ptr[T any](v T) *T { return &v }

// names returns the limits and values of a list.
func names(limits []*taskenginev1.Limit) string {
	all := make([]string, len(limits))
	for i, l := range limits {
		if all[i] = l.GetName(); l.GetValue() != "" {
			all[i] += "/" + l.GetValue()
		}
	}
	return strings.Join(all, " ")
}

func TestALimitIsListedWithWhatIsConfiguredAndWhatIsSet(t *testing.T) {
	n := newLimitNode(t)
	c := n.client(t)
	list, err := c.ListLimits(t.Context(), &taskenginev1.ListLimitsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	rate := &taskenginev1.Rate{Count: 1000, Per: durationpb.New(time.Second), Burst: 7}
	want := []*taskenginev1.Limit{
		{Name: "partner", Configured: true, Of: "payouts", Per: "payload.p", Scope: "node", Max: 1, Rate: rate, ConfiguredMax: 1, ConfiguredRate: rate},
		{Name: "payouts", Configured: true, Scope: "cluster", Max: 4, ConfiguredMax: 4},
	}
	if diff := cmp.Diff(want, list.GetLimits(), protocmp.Transform()); diff != "" {
		t.Errorf("the limits are (-want +got)\n%s", diff)
	}
	for _, value := range []string{"big*", "bigger", ""} {
		if _, err := c.SetLimit(t.Context(), &taskenginev1.SetLimitRequest{Name: "partner", Value: value, Max: ptr(uint32(3)), By: "eve"}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.GetLimit(t.Context(), &taskenginev1.GetLimitRequest{Name: "partner", Value: "bigger"})
	if err != nil {
		t.Fatal(err)
	}
	l := got.GetLimit()
	if s := l.GetSetting(); l.GetMax() != 3 || l.GetConfiguredMax() != 2 || s.GetMax() != 3 || s.Rate != nil || s.GetBy() != "unknown (says eve)" || s.GetNode() != "n1" || s.GetValue() != "bigger" ||
		time.Since(s.GetAt().AsTime()) > time.Hour || s.GetVersion() == 0 {
		t.Errorf("the limit is %v", l)
	}
	if in := l.GetInherited(); len(in) != 2 || in[0].GetValue() != "big*" || in[1].GetValue() != "" {
		t.Errorf("it inherits %v", in)
	}
	if list, err = c.ListLimits(t.Context(), &taskenginev1.ListLimitsRequest{}); err != nil || names(list.GetLimits()) != "partner partner/big* partner/bigger payouts" {
		t.Errorf("the limits are %v, %v", list, err)
	}
}

func TestWhatARequestDoesNotNameStaysSet(t *testing.T) {
	n := newLimitNode(t)
	c := n.client(t)
	rate := &taskenginev1.Rate{Count: 20, Per: durationpb.New(time.Minute), Burst: 3}
	version := uint64(0)
	for _, step := range []struct {
		req  *taskenginev1.SetLimitRequest
		want *taskenginev1.LimitSetting // without version, time and node; nil if nothing is set
	}{
		{&taskenginev1.SetLimitRequest{Max: ptr(uint32(5)), IfVersion: ptr(uint64(0)), By: "a"}, &taskenginev1.LimitSetting{Max: ptr(uint32(5)), By: "unknown (says a)"}},
		{&taskenginev1.SetLimitRequest{Rate: rate, By: "b"}, &taskenginev1.LimitSetting{Max: ptr(uint32(5)), Rate: rate, By: "unknown (says b)"}},
		{&taskenginev1.SetLimitRequest{Paused: ptr(true)}, &taskenginev1.LimitSetting{Max: ptr(uint32(5)), Rate: rate, Paused: true, By: "unknown"}},
		{
			&taskenginev1.SetLimitRequest{Max: ptr(uint32(0)), Rate: &taskenginev1.Rate{}},
			&taskenginev1.LimitSetting{Max: ptr(uint32(0)), Rate: &taskenginev1.Rate{}, Paused: true, By: "unknown"},
		},
		{&taskenginev1.SetLimitRequest{Paused: ptr(false)}, &taskenginev1.LimitSetting{Max: ptr(uint32(0)), Rate: &taskenginev1.Rate{}, By: "unknown"}},
	} {
		step.req.Name, step.req.Value = "partner", "acme"
		if version > 0 {
			step.req.IfVersion = &version
		}
		res, err := c.SetLimit(t.Context(), step.req)
		if err != nil {
			t.Fatalf("%v: %v", step.req, err)
		}
		got := res.GetLimit().GetSetting()
		if got.GetVersion() <= version {
			t.Errorf("%v: the version was %d and is %d", step.req, version, got.GetVersion())
		}
		version = got.GetVersion()
		step.want.Value = "acme"
		if l := res.GetLimit(); l.GetPaused() != step.want.GetPaused() || l.GetMax() != step.want.GetMax() {
			t.Errorf("%v: in force is %v", step.req, l)
		}
		if diff := cmp.Diff(step.want, got, protocmp.Transform(), protocmp.IgnoreFields(got, "version", "at", "node")); diff != "" {
			t.Errorf("%v (-want +got)\n%s", step.req, diff)
		}
	}
	res, err := c.UnsetLimit(t.Context(), &taskenginev1.UnsetLimitRequest{Name: "partner", Value: "acme", IfVersion: &version})
	if err != nil || res.GetLimit().GetSetting() != nil || res.GetLimit().GetConfiguredMax() != 1 {
		t.Errorf("unset returns %v, %v", res, err)
	}
}

func TestAPauseThatIsLiftedLeavesNothingSet(t *testing.T) {
	n := newLimitNode(t)
	c := n.client(t)
	for _, paused := range []bool{false, true, false, false} { // also before anything is set
		res, err := c.SetLimit(t.Context(), &taskenginev1.SetLimitRequest{Name: "payouts", Paused: &paused})
		if err != nil || res.GetLimit().GetSetting().GetPaused() != paused || (res.GetLimit().GetSetting() != nil) != paused {
			t.Errorf("paused %v returns %v, %v", paused, res, err)
		}
	}
}

func TestConcurrentChangesOfALimitAreAllKept(t *testing.T) {
	n := newLimitNode(t)
	c := n.client(t)
	for round := range uint32(20) {
		var wg sync.WaitGroup
		for _, req := range []*taskenginev1.SetLimitRequest{
			{Max: ptr(round)}, {Rate: &taskenginev1.Rate{Count: round + 1, Per: durationpb.New(time.Second)}}, {Paused: ptr(round%2 == 0)},
		} {
			req.Name = "payouts"
			wg.Go(func() {
				if _, err := c.SetLimit(t.Context(), req); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		res, err := c.GetLimit(t.Context(), &taskenginev1.GetLimitRequest{Name: "payouts"})
		if s := res.GetLimit().GetSetting(); err != nil || s.GetMax() != round || s.GetRate().GetCount() != round+1 || s.GetPaused() != (round%2 == 0) {
			t.Fatalf("in round %d the setting is %v, %v", round, s, err)
		}
	}
}

func TestBadRequestsAboutLimitsAreRefused(t *testing.T) {
	n := newLimitNode(t)
	if _, err := n.client(t).SetLimit(t.Context(), &taskenginev1.SetLimitRequest{Name: "payouts", Max: ptr(uint32(3))}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ method, body, code, says string }{
		"an unknown limit":             {"GetLimit", `{"name":"payuots"}`, "not_found", "did you mean payouts?"},
		"no limit":                     {"GetLimit", `{}`, "not_found", "use partner or payouts"},
		"set an unknown limit":         {"SetLimit", `{"name":"partnr","max":1}`, "not_found", "did you mean partner?"},
		"unset an unknown limit":       {"UnsetLimit", `{"name":"partnr"}`, "not_found", "partnr"},
		"why of an unknown limit":      {"WhyLimit", `{"name":"partnr"}`, "not_found", "did you mean partner?"},
		"a value of a limit with none": {"SetLimit", `{"name":"payouts","value":"acme","max":1}`, "invalid_argument", "no values"},
		"why of such a value":          {"WhyLimit", `{"name":"payouts","value":"acme"}`, "invalid_argument", "no values"},
		"a pattern in the middle":      {"SetLimit", `{"name":"partner","value":"a*b","max":1}`, "invalid_argument", "before its end"},
		"nothing to set":               {"SetLimit", `{"name":"payouts"}`, "invalid_argument", "none of max, rate and paused"},
		"a negative max":               {"SetLimit", `{"name":"payouts","max":-1}`, "invalid_argument", "-1"},
		"too large a max":              {"SetLimit", `{"name":"payouts","max":2147483648}`, "invalid_argument", "2147483648"},
		"a rate without a time":        {"SetLimit", `{"name":"payouts","rate":{"count":3}}`, "invalid_argument", "needs a time"},
		"a rate backwards":             {"SetLimit", `{"name":"payouts","rate":{"count":3,"per":"-1s"}}`, "invalid_argument", "negative"},
		"a rate with no unit":          {"SetLimit", `{"name":"payouts","rate":{"count":3,"per":"1"}}`, "invalid_argument", "Duration"},
		"a burst of nothing":           {"SetLimit", `{"name":"payouts","rate":{"burst":3}}`, "invalid_argument", "no starts"},
		"another version":              {"SetLimit", `{"name":"payouts","max":1,"ifVersion":99}`, "aborted", "not 99"},
		"no version where there is":    {"SetLimit", `{"name":"payouts","max":1,"ifVersion":0}`, "aborted", "is at version"},
		"a version where there is not": {"SetLimit", `{"name":"partner","max":1,"ifVersion":1}`, "aborted", "is not set"},
		"unset another version":        {"UnsetLimit", `{"name":"payouts","ifVersion":99}`, "aborted", "not 99"},
		"unset nothing":                {"UnsetLimit", `{"name":"partner","value":"acme"}`, "not_found", "as it is configured"},
		"a name with control letters":  {"SetLimit", `{"name":"payouts","max":1,"by":"a\u001bb"}`, "invalid_argument", "printable"},
		"a misspelled field":           {"SetLimit", `{"name":"payouts","mx":1}`, "invalid_argument", "mx"},
	} {
		t.Run(name, func(t *testing.T) {
			_, res := n.post(t, c.method, c.body)
			if message, _ := res["message"].(string); res["code"] != c.code || !strings.Contains(message, c.says) {
				t.Errorf("the answer is %v, want %s: %s", res, c.code, c.says)
			}
		})
	}
}

func TestAWatchSendsTheLimitsAtOnceAndAfterEachChange(t *testing.T) {
	n := newLimitNode(t)
	for name, c := range map[string]taskenginev1connect.TaskServiceClient{
		"gRPC": n.client(t), "Connect over HTTP/1.1": n.clientOf(t, false), "gRPC-Web": n.clientOf(t, false, connect.WithGRPCWeb()),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := c.WatchLimits(ctx, &taskenginev1.WatchLimitsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			next := func(want string) {
				t.Helper()
				for stream.Receive() {
					if names(stream.Msg().GetLimits()) == want {
						return
					}
				}
				t.Fatalf("the limits are never %q: %v", want, stream.Err())
			}
			next("partner payouts")
			if _, err := c.SetLimit(t.Context(), &taskenginev1.SetLimitRequest{Name: "partner", Value: "acme", Max: ptr(uint32(3))}); err != nil {
				t.Fatal(err)
			}
			next("partner partner/acme payouts")
			if _, err := c.UnsetLimit(t.Context(), &taskenginev1.UnsetLimitRequest{Name: "partner", Value: "acme"}); err != nil {
				t.Fatal(err)
			}
			next("partner payouts")
		})
	}
}

func TestAWatchEndsAfterItsTimeoutAndWhenTheEngineCloses(t *testing.T) {
	n := newLimitNode(t)
	watch := func(timeout time.Duration, heard func()) error {
		stream, err := n.client(t).WatchLimits(t.Context(), &taskenginev1.WatchLimitsRequest{Timeout: durationpb.New(timeout)})
		if err != nil {
			return err
		}
		defer stream.Close()
		for stream.Receive() {
			heard()
		}
		return stream.Err()
	}
	for _, timeout := range []time.Duration{0, time.Millisecond} { // which may have passed before the server reads its limits
		responses := 0
		if err := watch(timeout, func() { responses++ }); err != nil || responses == 0 { // the engine may read its limits meanwhile
			t.Errorf("a watch of %v has %d responses and ends with %v", timeout, responses, err)
		}
	}
	if err := watch(-time.Second, func() {}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a watch backwards ends with %v", err)
	}
	closed := make(chan error)
	err := watch(time.Minute, func() { go func() { closed <- n.engine.Close(context.Background()) }() })
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("when the engine closes, the watch ends with %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestWhyOfALimitNamesTheTasksThatHoldIt(t *testing.T) {
	n := newLimitNode(t)
	c := n.client(t)
	first := n.submit(t, &taskenginev1.NewTask{Type: "pay", Input: &taskenginev1.NewTask_Text{Text: `{"p":"acme"}`}})
	n.until(t, first, "processing")
	second := n.submit(t, &taskenginev1.NewTask{Type: "pay", Input: &taskenginev1.NewTask_Text{Text: `{"p":"acme"}`}})
	other := n.submit(t, &taskenginev1.NewTask{Type: "pay", Input: &taskenginev1.NewTask_Text{Text: `{"p":"other"}`}})
	n.until(t, other, "processing")
	why := func(name, value string) *taskenginev1.WhyLimitResponse {
		t.Helper()
		res, err := c.WhyLimit(t.Context(), &taskenginev1.WhyLimitRequest{Name: name, Value: value})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	one := why("partner", "acme")
	if len(one.GetTasks()) != 1 || one.GetTasks()[0].GetId() != first || one.GetTasks()[0].GetSlots() != 1 || one.GetTasks()[0].GetStartedAt() == nil {
		t.Errorf("the limit is held by %v", one.GetTasks())
	}
	if q := one.GetQueued(); len(q) != 1 || q[0].GetType() != "pay" || q[0].GetTasks() != 1 || one.GetLimit().GetUsed() != 1 {
		t.Errorf("it is %v", one)
	}
	if all := why("payouts", ""); all.GetLimit().GetUsed() != 2 || len(all.GetTasks()) != 2 {
		t.Errorf("the limit above it is %v", all)
	}
	close(n.release)
	n.settle(t, second)
	if _, err := c.SetLimit(t.Context(), &taskenginev1.SetLimitRequest{Name: "partner", Value: "acme", Paused: ptr(true), By: "eve@desk"}); err != nil {
		t.Fatal(err)
	}
	stopped := n.submit(t, &taskenginev1.NewTask{Type: "pay", Input: &taskenginev1.NewTask_Text{Text: `{"p":"acme"}`}})
	reasons, err := c.Why(t.Context(), &taskenginev1.WhyRequest{Id: stopped})
	if err != nil || len(reasons.GetReasons()) != 1 {
		t.Fatalf("it does not run because of %v, %v", reasons, err)
	}
	if r := reasons.GetReasons()[0]; r.GetCode() != "paused" || r.GetLimit() != "partner" || r.GetValue() != "acme" || !strings.Contains(r.GetText(), "by unknown (says eve@desk)") {
		t.Errorf("it does not run because of %v", r)
	}
	if _, err := c.UnsetLimit(t.Context(), &taskenginev1.UnsetLimitRequest{Name: "partner", Value: "acme"}); err != nil {
		t.Fatal(err)
	}
	n.settle(t, stopped)
	if after := why("partner", "acme"); len(after.GetTasks())+len(after.GetQueued()) != 0 || after.GetLimit().GetUsed() != 0 {
		t.Errorf("in the end it is %v", after)
	}
}
