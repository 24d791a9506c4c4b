package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// sliceNode is the API of a node, in made-up time, with a source of time slices called orders and one that reads the topic records.
// The slices of its platform bad fail.
type sliceNode struct {
	*server.API
	t      *testing.T
	engine *engine.Engine
	slices *slicer.Sources
	log    bytes.Buffer
}

func inSliceNode(t *testing.T, values map[string]string, platforms []string, fn func(n *sliceNode)) {
	t.Helper()
	inSliceNodeOf(t, func() coord.Coordinator { return coord.Coordinator{} }, values, platforms, fn)
}

// inSliceNodeOf is inSliceNode with a coordinator.
func inSliceNodeOf(t *testing.T, by func() coord.Coordinator, values map[string]string, platforms []string, fn func(n *sliceNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &sliceNode{t: t}
		d := timeslice.Definition{Type: "fetch", Platforms: make(map[string]timeslice.Values)}
		for name, text := range values {
			if err := d.Values.Set(name, text); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range platforms {
			d.Platforms[name] = timeslice.Values{}
		}
		all, err := slicer.New(slicer.Config{Sources: map[string]timeslice.Definition{"orders": d}})
		if err != nil {
			t.Fatal(err)
		}
		n.slices = all
		handlers, set := all.Handlers(), policy.Set{Types: all.Policies()}
		set.Types["fetch"] = slicer.SlicePolicy(policy.DefaultType())
		handlers["fetch"] = slicer.Handler(task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Headers[timeslice.Header] == "orders/bad" {
				return nil, errors.New("the platform is down")
			}
			return nil, nil
		}))
		if n.engine, err = engine.Open(t.Context(), engine.Config{Name: "n1", Store: memory.New(), Handlers: handlers, Policies: set, Coordinator: by()}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := n.engine.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		if err := all.Apply(t.Context(), n.engine); err != nil {
			t.Fatal(err)
		}
		records := &someSources{names: []string{"records"}, all: map[string]*server.Source{"records": {Name: "records"}}}
		n.API = server.NewAPI(server.APIConfig{Engine: n.engine, Sources: records, Slices: all, Log: slog.New(slog.NewTextHandler(&n.log, nil))})
		fn(n)
	})
}

func (n *sliceNode) source() *taskenginev1.SliceSource {
	n.t.Helper()
	res, err := n.GetSliceSource(n.t.Context(), &taskenginev1.GetSliceSourceRequest{Name: "orders"})
	if err != nil {
		n.t.Fatal(err)
	}
	return res.GetSource()
}

func (n *sliceNode) platform(name string) *taskenginev1.Platform {
	n.t.Helper()
	res, err := n.GetPlatform(n.t.Context(), &taskenginev1.GetPlatformRequest{Source: "orders", Platform: name})
	if err != nil {
		n.t.Fatal(err)
	}
	return res.GetPlatform()
}

// ok fails the test if an order was refused, and otherwise lets it be carried out.
func (n *sliceNode) ok(_ any, err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
	time.Sleep(time.Second)
}

func setting(all []*taskenginev1.SliceSetting, name string) string {
	i := slices.IndexFunc(all, func(s *taskenginev1.SliceSetting) bool { return s.GetName() == name })
	if i < 0 {
		return ""
	}
	return all[i].GetValue() + " " + all[i].GetFrom()
}

func TestASourceOfSlicesHasTheSumsOfItsPlatforms(t *testing.T) {
	inSliceNode(t, map[string]string{"interval": "1m", "retries": "0", "breaker": "3", "probe": "1h"}, []string{"a", "b", "bad", "gone"}, func(n *sliceNode) {
		begin := time.Now()
		ctx := n.t.Context()
		time.Sleep(2 * time.Second)
		n.ok(n.RemovePlatform(ctx, &taskenginev1.RemovePlatformRequest{Source: "orders", Platform: "gone"}))
		n.ok(n.PauseSlices(ctx, &taskenginev1.PauseSlicesRequest{Source: "orders", Platform: "b", Reason: "holidays", By: "anna"}))
		time.Sleep(time.Hour)
		res, err := n.ListSliceSources(ctx, &taskenginev1.ListSliceSourcesRequest{})
		if err != nil || len(res.GetSources()) != 1 {
			n.t.Fatal(res, err)
		}
		s := res.GetSources()[0]
		if s.GetName() != "orders" || s.GetType() != "fetch" || s.GetPlatformCount() != 3 || s.GetFailed() != 3 || s.GetStopped() != 1 || s.GetPaused() != 1 ||
			s.GetProblems() != 0 || s.GetOrders() != 0 || !s.GetLowWater().AsTime().Equal(begin) || s.GetCursorLag().AsDuration() < time.Hour ||
			len(s.GetValues())+len(s.GetHistory()) != 0 {
			n.t.Errorf("%v", s)
		}
		bad := n.platform("bad")
		if len(bad.GetSlices()) != 3 || bad.GetSlices()[0].GetFailedAt() == nil || bad.GetStopped().GetNext() == nil || bad.GetFailed() != 3 || !bad.GetLowWater().AsTime().Equal(begin) {
			n.t.Errorf("%v", bad)
		}
		got, err := n.Get(ctx, &taskenginev1.GetRequest{Id: bad.GetSlices()[0].GetTaskId()})
		if err != nil || got.GetTask().GetState() != "error" || got.GetTask().GetError() != "the platform is down" {
			n.t.Error(got, err)
		}
		b := n.platform("b")
		if b.GetPaused().GetReason() != "holidays" || len(b.GetHistory()) != 1 || b.GetHistory()[0].GetBy() != "unknown (says anna)" || b.GetHistory()[0].GetWhat() != "pause: holidays" {
			n.t.Errorf("%v", b)
		}
		if !strings.Contains(n.log.String(), "verb=pause source=orders platform=b by=\"unknown (says anna)\" reason=holidays") {
			n.t.Error(n.log.String())
		}
	})
}

func TestPlatformsAreListedByNameInPages(t *testing.T) {
	var names []string
	for i := range 250 {
		names = append(names, fmt.Sprintf("p%03d", i))
	}
	inSliceNode(t, map[string]string{"interval": "1h"}, append(names, "q"), func(n *sliceNode) {
		time.Sleep(2 * time.Second)
		for prefix, want := range map[string][]string{"": append(slices.Clone(names), "q"), "p": names, "p01": names[10:20], "x": nil} {
			var got []string
			req := &taskenginev1.ListPlatformsRequest{Source: "orders", Prefix: prefix, Limit: 10}
			for pages := 1; ; pages++ {
				res, err := n.ListPlatforms(n.t.Context(), req)
				if err != nil {
					n.t.Fatal(err)
				}
				for _, p := range res.GetPlatforms() {
					got = append(got, p.GetName())
					if p.GetCursor() == nil || p.GetSource() != "orders" || p.GetTaskId() == "" || len(p.GetSettings()) > 0 {
						n.t.Errorf("%v", p)
					}
				}
				if req.PageToken = res.GetNextPageToken(); req.GetPageToken() == "" {
					if pages != max(1, (len(want)+9)/10) {
						n.t.Errorf("%d pages", pages)
					}
					break
				}
			}
			if !slices.Equal(got, want) {
				n.t.Errorf("%q: %q", prefix, got)
			}
		}
	})
}

func TestValuesAreSetAndHaveTheirOrigin(t *testing.T) {
	inSliceNode(t, map[string]string{"interval": "1m", "retries": "2"}, []string{"a", "b"}, func(n *sliceNode) {
		ctx := n.t.Context()
		time.Sleep(2 * time.Second)
		n.ok(n.SetSlices(ctx, &taskenginev1.SetSlicesRequest{Source: "orders", Values: map[string]string{"interval": "5m", "lag": "3s"}, By: "anna", Reason: "too often"}))
		n.ok(n.SetSlices(ctx, &taskenginev1.SetSlicesRequest{Source: "orders", Platform: "a", Values: map[string]string{"interval": "10m"}}))
		s := n.source()
		if setting(s.GetValues(), "interval") != "5m0s live" || setting(s.GetValues(), "retries") != "2 file" || len(s.GetValues()) != 3 || s.GetOrders() != 0 ||
			len(s.GetHistory()) != 2 || s.GetHistory()[1].GetBy() != "unknown (says anna)" || s.GetHistory()[1].GetWhat() != "set interval=5m lag=3s: too often" {
			n.t.Errorf("%v", s)
		}
		for _, c := range []struct{ platform, name, want string }{
			{"a", "interval", "10m0s own"},
			{"a", "lag", "3s live"},
			{"a", "retries", "2 file"},
			{"a", "breaker", "5 default"},
			{"a", "start", ""},
			{"b", "interval", "5m0s live"},
			{"b", "catch_up_interval", "5m0s default"},
		} {
			if got := setting(n.platform(c.platform).GetSettings(), c.name); got != c.want {
				n.t.Errorf("%s of %s: %q, want %q", c.name, c.platform, got, c.want)
			}
		}
		n.ok(n.SetSlices(ctx, &taskenginev1.SetSlicesRequest{Source: "orders", Platform: "a", Values: map[string]string{"interval": "", "overlap": "4m"}}))
		if p := n.platform("a"); setting(p.GetSettings(), "interval") != "5m0s live" || setting(p.GetSettings(), "overlap") != "4m0s own" || p.GetProblem() != "" {
			n.t.Errorf("%v", p)
		}
		// The platform keeps its settings if the values of its source contradict its own.
		n.ok(n.SetSlices(ctx, &taskenginev1.SetSlicesRequest{Source: "orders", Values: map[string]string{"interval": "3m"}}))
		if p := n.platform("a"); setting(p.GetSettings(), "interval") != "5m0s before" || !strings.Contains(p.GetProblem(), "overlap") || n.source().GetProblems() != 1 {
			n.t.Errorf("%v", p)
		}
	})
}

func TestPlatformsAreAddedResetAndRetried(t *testing.T) {
	inSliceNode(t, map[string]string{"interval": "1m", "retries": "0", "breaker": "0"}, []string{"bad"}, func(n *sliceNode) {
		ctx := n.t.Context()
		time.Sleep(2 * time.Second)
		n.ok(n.AddPlatform(ctx, &taskenginev1.AddPlatformRequest{Source: "orders", Platform: "new"}))
		time.Sleep(10 * time.Minute)
		p := n.platform("new")
		if p.GetMade() != 10 || p.GetDone() < 9 {
			n.t.Fatalf("%v", p)
		}
		to := timestamppb.New(p.GetCursor().AsTime().Add(-5 * time.Minute))
		_, err := n.ResetPlatform(ctx, &taskenginev1.ResetPlatformRequest{Source: "orders", Platform: "new", To: to, From: to})
		if connect.CodeOf(err) != connect.CodeAborted || !strings.Contains(err.Error(), p.GetCursor().AsTime().Format(time.RFC3339Nano)) {
			n.t.Error(err)
		}
		n.ok(n.ResetPlatform(ctx, &taskenginev1.ResetPlatformRequest{Source: "orders", Platform: "new", To: to, From: p.GetCursor()}))
		if p = n.platform("new"); p.GetMade() != 15 {
			n.t.Errorf("%v", p)
		}
		bad := n.platform("bad")
		retry := &taskenginev1.RetrySlicesRequest{Source: "orders", Platform: "bad", From: bad.GetSlices()[1].GetStart(), Until: bad.GetSlices()[3].GetStart()}
		n.ok(n.RetrySlices(ctx, retry))
		for i, one := range n.platform("bad").GetSlices()[:5] {
			got, err := n.Get(ctx, &taskenginev1.GetRequest{Id: one.GetTaskId()})
			if err != nil || (got.GetTask().GetVersion() > 4) != (i == 1 || i == 2) {
				n.t.Errorf("slice %d: %v, %v", i, got, err)
			}
		}
		retry.Platform, retry.From, retry.Until = "", nil, nil
		if res, err := n.RetrySlices(ctx, retry); err != nil || res.GetPlatforms() < 1 || res.GetPlatform() != nil {
			n.t.Error(res, err)
		}
	})
}

func TestAllPlatformsOfASourceArePausedAndResumed(t *testing.T) {
	inSliceNode(t, map[string]string{"interval": "1m"}, []string{"a", "b", "c", "gone"}, func(n *sliceNode) {
		ctx := n.t.Context()
		time.Sleep(2 * time.Second)
		n.ok(n.RemovePlatform(ctx, &taskenginev1.RemovePlatformRequest{Source: "orders", Platform: "gone"}))
		n.ok(n.PauseSlices(ctx, &taskenginev1.PauseSlicesRequest{Source: "orders", Platform: "b", Reason: "before"}))
		for _, want := range []uint32{2, 0} {
			res, err := n.PauseSlices(ctx, &taskenginev1.PauseSlicesRequest{Source: "orders", Reason: "all"})
			if n.ok(res, err); res.GetPlatforms() != want || res.GetPlatform() != nil {
				n.t.Errorf("%v, want %d", res, want)
			}
		}
		if n.source().GetPaused() != 3 || n.platform("b").GetPaused().GetReason() != "before" || n.platform("a").GetPaused().GetReason() != "all" {
			n.t.Errorf("%v", n.source())
		}
		res, err := n.ResumeSlices(ctx, &taskenginev1.ResumeSlicesRequest{Source: "orders"})
		if n.ok(res, err); res.GetPlatforms() != 3 || n.source().GetPaused() != 0 {
			n.t.Errorf("%v, %v", res, n.source())
		}
	})
}

// The answer to an order for a whole source names the node if nodes have stores of their own: the others have not got the order.
func TestAnOrderForAllPlatformsOfANodeWithAStoreOfItsOwnNamesTheNode(t *testing.T) {
	for want, by := range map[string]func() coord.Coordinator{
		"":   func() coord.Coordinator { return coord.Coordinator{} },
		"n1": func() coord.Coordinator { link := local.New(); return coord.Coordinator{Settings: link, Peers: link} },
	} {
		inSliceNodeOf(t, by, map[string]string{"interval": "1m"}, []string{"a"}, func(n *sliceNode) {
			ctx, cancel := context.WithCancel(n.t.Context())
			var holding sync.WaitGroup
			holding.Go(func() { n.slices.Hold(ctx, n.engine) })
			defer holding.Wait()
			defer cancel()
			time.Sleep(5 * time.Minute)
			if got := n.source().GetOnlyOn(); got != want {
				n.t.Errorf("the source is on %q only, want %q", got, want)
			}
			for _, platform := range []string{"", "a"} {
				values := map[string]string{"lag": "1s"}
				for verb, order := range map[string]func() (interface{ GetOnlyOn() string }, error){
					"set": func() (interface{ GetOnlyOn() string }, error) {
						return n.SetSlices(ctx, &taskenginev1.SetSlicesRequest{Source: "orders", Platform: platform, Values: values})
					},
					"pause": func() (interface{ GetOnlyOn() string }, error) {
						return n.PauseSlices(ctx, &taskenginev1.PauseSlicesRequest{Source: "orders", Platform: platform})
					},
					"resume": func() (interface{ GetOnlyOn() string }, error) {
						return n.ResumeSlices(ctx, &taskenginev1.ResumeSlicesRequest{Source: "orders", Platform: platform})
					},
					"retry": func() (interface{ GetOnlyOn() string }, error) {
						return n.RetrySlices(ctx, &taskenginev1.RetrySlicesRequest{Source: "orders", Platform: platform})
					},
				} {
					res, err := order()
					n.ok(res, err)
					if got := res.GetOnlyOn(); got != want && platform == "" || got != "" && platform != "" {
						n.t.Errorf("%s of the platform %q is on %q only, want %q for all platforms", verb, platform, got, want)
					}
				}
			}
		})
	}
}

func TestErrorsAboutSlicesHaveTheirCodes(t *testing.T) {
	inSliceNode(t, map[string]string{"interval": "1m"}, []string{"shop-a"}, func(n *sliceNode) {
		ctx := n.t.Context()
		time.Sleep(2 * time.Second)
		is := func(code connect.Code, words string) func(any, error) {
			return func(_ any, err error) {
				n.t.Helper()
				if connect.CodeOf(err) != code || !strings.Contains(err.Error(), words) {
					n.t.Errorf("%v, want %v and %q", err, code, words)
				}
			}
		}
		missing, invalid := connect.CodeNotFound, connect.CodeInvalidArgument
		is(missing, "did you mean orders?")(n.GetSliceSource(ctx, &taskenginev1.GetSliceSourceRequest{Name: "order"}))
		is(missing, "reads topics")(n.ListPlatforms(ctx, &taskenginev1.ListPlatformsRequest{Source: "records"}))
		is(missing, "time slices")(n.GetSource(ctx, &taskenginev1.GetSourceRequest{Name: "orders"}))
		is(missing, "time slices")(n.PauseSource(ctx, &taskenginev1.PauseSourceRequest{Name: "orders"}))
		is(missing, "did you mean shop-a?")(n.GetPlatform(ctx, &taskenginev1.GetPlatformRequest{Source: "orders", Platform: "shop-b"}))
		is(missing, "source add")(n.PauseSlices(ctx, &taskenginev1.PauseSlicesRequest{Source: "orders", Platform: "something"}))
		is(missing, "did you mean shop-a?")(n.RetrySlices(ctx, &taskenginev1.RetrySlicesRequest{Source: "orders", Platform: "shopa"}))
		is(invalid, "slash")(n.AddPlatform(ctx, &taskenginev1.AddPlatformRequest{Source: "orders", Platform: "a/b"}))
		is(invalid, "platform is missing")(n.AddPlatform(ctx, &taskenginev1.AddPlatformRequest{Source: "orders"}))
		is(invalid, "platform is missing")(n.ResetPlatform(ctx, &taskenginev1.ResetPlatformRequest{Source: "orders", To: timestamppb.Now()}))
		is(invalid, "to is missing")(n.ResetPlatform(ctx, &taskenginev1.ResetPlatformRequest{Source: "orders", Platform: "shop-a"}))
		is(invalid, "1970")(n.ResetPlatform(ctx, &taskenginev1.ResetPlatformRequest{Source: "orders", Platform: "shop-a", To: timestamppb.New(time.Unix(-1, 0))}))
		is(invalid, "until")(n.RetrySlices(ctx, &taskenginev1.RetrySlicesRequest{Source: "orders", From: timestamppb.Now(), Until: timestamppb.Now()}))
		is(invalid, "limit")(n.ListPlatforms(ctx, &taskenginev1.ListPlatformsRequest{Source: "orders", Limit: 1001}))
		for _, platform := range []string{"", "shop-a"} {
			set := func(values map[string]string) *taskenginev1.SetSlicesRequest {
				return &taskenginev1.SetSlicesRequest{Source: "orders", Platform: platform, Values: values}
			}
			is(invalid, "values are missing")(n.SetSlices(ctx, set(nil)))
			is(invalid, "did you mean interval?")(n.SetSlices(ctx, set(map[string]string{"intervall": "1m"})))
			is(invalid, "interval")(n.SetSlices(ctx, set(map[string]string{"interval": "1ms"})))
			is(invalid, "100 allowed")(n.SetSlices(ctx, set(map[string]string{"interval": strings.Repeat("0", 100) + "1m"})))
		}
		is(invalid, "reason")(n.PauseSlices(ctx, &taskenginev1.PauseSlicesRequest{Source: "orders", Reason: strings.Repeat("x", 1001)}))
		is(invalid, "by")(n.PauseSlices(ctx, &taskenginev1.PauseSlicesRequest{Source: "orders", By: strings.Repeat("x", 201)}))
		if p := n.platform("shop-a"); len(p.GetHistory()) > 0 || len(n.source().GetHistory()) != 1 {
			n.t.Errorf("%v, %v", p, n.source())
		}
		t, err := n.engine.Get(ctx, timeslice.Platform{Source: "orders", Name: "shop-a"}.Cursor())
		if err == nil {
			_, err = n.engine.Cancel(ctx, t.Ref(), "")
		}
		n.ok(nil, err)
		is(connect.CodeFailedPrecondition, "ended by hand")(n.PauseSlices(ctx, &taskenginev1.PauseSlicesRequest{Source: "orders", Platform: "shop-a"}))
		if p := n.platform("shop-a"); !strings.Contains(p.GetProblem(), "ended by hand") {
			n.t.Errorf("%v", p)
		}
	})
}

func TestANodeWithoutSlicesListsNone(t *testing.T) {
	c := newSourceNode(t, nil).client(t)
	if res, err := c.ListSliceSources(t.Context(), &taskenginev1.ListSliceSourcesRequest{}); err != nil || len(res.GetSources()) != 0 {
		t.Error(res, err)
	}
	if _, err := c.PauseSlices(t.Context(), &taskenginev1.PauseSlicesRequest{Source: "orders"}); connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "no sources") {
		t.Error(err)
	}
}
