package cli

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// sliceNode is a node with the source of time slices orders, which has three platforms. It keeps the requests that change something.
type sliceNode struct {
	sourceNode
	looks  int    // of GetPlatform and GetSliceSource, until all orders are carried out
	onlyOn string // the name of the node if it has a store of its own
}

func aPlatform(name string) *taskenginev1.Platform {
	return &taskenginev1.Platform{
		Source: "orders", Name: name, Cursor: aTime, LowWater: aTime, CursorLag: durationpb.New(90 * time.Second), Running: 1, Failed: 2, Made: 9, Done: 6, TaskId: "t1",
		Version: 7, Own: map[string]string{"interval": "1m0s"}, Configured: name == "a",
		Settings: []*taskenginev1.SliceSetting{{Name: "interval", Value: "1m0s", From: "own"}},
		Slices:   []*taskenginev1.OpenSlice{{Start: aTime, End: aTime, FailedAt: aTime, TaskId: "t2"}},
		History:  []*taskenginev1.SliceChange{{At: aTime, By: "anna", What: "pause: holidays"}},
	}
}

func (n *sliceNode) orders() uint32 {
	if n.looks--; n.looks >= 0 {
		return 1
	}
	return 0
}

func (n *sliceNode) ListSliceSources(context.Context, *taskenginev1.ListSliceSourcesRequest) (*taskenginev1.ListSliceSourcesResponse, error) {
	return &taskenginev1.ListSliceSourcesResponse{Sources: []*taskenginev1.SliceSource{aSliceSource()}}, nil
}

func aSliceSource() *taskenginev1.SliceSource {
	return &taskenginev1.SliceSource{Name: "orders", Type: "fetch", PlatformCount: 3, LowWater: aTime, CursorLag: durationpb.New(90 * time.Second), Running: 4, Failed: 5, Stopped: 1, TaskId: "t0"}
}

func (n *sliceNode) GetSliceSource(context.Context, *taskenginev1.GetSliceSourceRequest) (*taskenginev1.GetSliceSourceResponse, error) {
	s := aSliceSource()
	s.Orders, s.OnlyOn = n.orders(), n.onlyOn
	s.Values = []*taskenginev1.SliceSetting{{Name: "lag", Value: "3s", From: "live"}}
	return &taskenginev1.GetSliceSourceResponse{Source: s}, nil
}

func (n *sliceNode) ListPlatforms(_ context.Context, req *taskenginev1.ListPlatformsRequest) (*taskenginev1.ListPlatformsResponse, error) {
	if req.GetSource() != "orders" {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no source %s", req.GetSource()))
	}
	res := &taskenginev1.ListPlatformsResponse{}
	for _, name := range []string{"a", "b", "c"} {
		if name > req.GetPageToken() && strings.HasPrefix(name, req.GetPrefix()) {
			if len(res.GetPlatforms()) == min(2, int(req.GetLimit())) {
				res.NextPageToken = res.GetPlatforms()[len(res.GetPlatforms())-1].GetName()
				break
			}
			res.Platforms = append(res.Platforms, aPlatform(name))
		}
	}
	return res, nil
}

func (n *sliceNode) GetPlatform(_ context.Context, req *taskenginev1.GetPlatformRequest) (*taskenginev1.GetPlatformResponse, error) {
	p := aPlatform(req.GetPlatform())
	p.Orders = n.orders()
	return &taskenginev1.GetPlatformResponse{Platform: p}, nil
}

// ordered keeps a request, and returns the platform that has the order; nil for a source.
func (n *sliceNode) ordered(req interface {
	proto.Message
	GetPlatform() string
},
) *taskenginev1.Platform {
	n.asked = append(n.asked, req)
	if req.GetPlatform() == "" {
		return nil
	}
	p := aPlatform(req.GetPlatform())
	p.Orders = n.orders()
	return p
}

func (n *sliceNode) SetSlices(_ context.Context, req *taskenginev1.SetSlicesRequest) (*taskenginev1.SetSlicesResponse, error) {
	return &taskenginev1.SetSlicesResponse{Platform: n.ordered(req), OnlyOn: n.onlyOn}, nil
}

func (n *sliceNode) AddPlatform(_ context.Context, req *taskenginev1.AddPlatformRequest) (*taskenginev1.AddPlatformResponse, error) {
	return &taskenginev1.AddPlatformResponse{Platform: n.ordered(req)}, nil
}

func (n *sliceNode) ApplyPlatforms(_ context.Context, req *taskenginev1.ApplyPlatformsRequest) (*taskenginev1.ApplyPlatformsResponse, error) {
	n.asked = append(n.asked, req)
	res := &taskenginev1.ApplyPlatformsResponse{}
	for _, r := range req.GetPlatforms() {
		one := &taskenginev1.AppliedPlatform{Name: r.GetName(), Outcome: "updated", Version: 8}
		switch r.GetName() {
		case "same":
			one.Outcome, one.Version = "unchanged", 7
		case "refused":
			one = &taskenginev1.AppliedPlatform{Name: "refused", Code: "aborted", Error: "the platform has changed"}
		}
		res.Platforms = append(res.Platforms, one)
	}
	return res, nil
}

func (n *sliceNode) RemovePlatform(_ context.Context, req *taskenginev1.RemovePlatformRequest) (*taskenginev1.RemovePlatformResponse, error) {
	return &taskenginev1.RemovePlatformResponse{Platform: n.ordered(req)}, nil
}

func (n *sliceNode) PauseSlices(_ context.Context, req *taskenginev1.PauseSlicesRequest) (*taskenginev1.PauseSlicesResponse, error) {
	return &taskenginev1.PauseSlicesResponse{Platform: n.ordered(req), Platforms: 3, OnlyOn: n.onlyOn}, nil
}

func (n *sliceNode) ResumeSlices(_ context.Context, req *taskenginev1.ResumeSlicesRequest) (*taskenginev1.ResumeSlicesResponse, error) {
	return &taskenginev1.ResumeSlicesResponse{Platform: n.ordered(req), Platforms: 3, OnlyOn: n.onlyOn}, nil
}

func (n *sliceNode) ResetPlatform(_ context.Context, req *taskenginev1.ResetPlatformRequest) (*taskenginev1.ResetPlatformResponse, error) {
	return &taskenginev1.ResetPlatformResponse{Platform: n.ordered(req)}, nil
}

func (n *sliceNode) RetrySlices(_ context.Context, req *taskenginev1.RetrySlicesRequest) (*taskenginev1.RetrySlicesResponse, error) {
	return &taskenginev1.RetrySlicesResponse{Platform: n.ordered(req), Platforms: 3, OnlyOn: n.onlyOn}, nil
}

func (n *sliceNode) on(t *testing.T, line string) result {
	t.Helper()
	return n.with(t, "", line)
}

// with runs a subcommand of source with a standard input.
func (n *sliceNode) with(t *testing.T, stdin, line string) result {
	t.Helper()
	_, h := taskenginev1connect.NewTaskServiceHandler(n)
	s := httptest.NewServer(h)
	defer s.Close()
	return cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, stdin, append([]string{"source"}, strings.Fields(line)...)...)
}

func TestSlicesAreOrderedAsTheFlagsSay(t *testing.T) {
	at, by := timestamppb.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), operator()
	for line, want := range map[string]proto.Message{
		"set orders/a interval=5m lag= --reason r": &taskenginev1.SetSlicesRequest{Source: "orders", Platform: "a", By: by, Reason: "r", Values: map[string]string{"interval": "5m", "lag": ""}},
		"set orders start=a=b":                     &taskenginev1.SetSlicesRequest{Source: "orders", By: by, Values: map[string]string{"start": "a=b"}},
		"add orders/d --reason r":                  &taskenginev1.AddPlatformRequest{Source: "orders", Platform: "d", By: by, Reason: "r"},
		"add orders/d interval=5m start=a":         &taskenginev1.AddPlatformRequest{Source: "orders", Platform: "d", By: by, Values: map[string]string{"interval": "5m", "start": "a"}},
		"pause orders --prefix eu- --reason r":     &taskenginev1.PauseSlicesRequest{Source: "orders", Prefix: "eu-", By: by, Reason: "r"},
		"resume orders --prefix eu-":               &taskenginev1.ResumeSlicesRequest{Source: "orders", Prefix: "eu-", By: by},
		"retry orders --prefix eu-":                &taskenginev1.RetrySlicesRequest{Source: "orders", Prefix: "eu-", By: by},
		"set orders --prefix b lag=1s": &taskenginev1.ApplyPlatformsRequest{
			Source: "orders", By: by, Platforms: []*taskenginev1.PlatformRow{{Name: "b", Values: map[string]string{"lag": "1s"}, IfVersion: new(uint64(7))}},
		},
		"remove orders --prefix c --reason r --dry-run": &taskenginev1.ApplyPlatformsRequest{
			Source: "orders", By: by, Reason: "r", DryRun: true, Platforms: []*taskenginev1.PlatformRow{{Name: "c", Removed: true, IfVersion: new(uint64(7))}},
		},
		"remove orders/a --reason r":               &taskenginev1.RemovePlatformRequest{Source: "orders", Platform: "a", By: by, Reason: "r"},
		"pause orders/a --reason r":                &taskenginev1.PauseSlicesRequest{Source: "orders", Platform: "a", By: by, Reason: "r"},
		"pause orders":                             &taskenginev1.PauseSlicesRequest{Source: "orders", By: by},
		"resume orders/a":                          &taskenginev1.ResumeSlicesRequest{Source: "orders", Platform: "a", By: by},
		"resume orders --reason r":                 &taskenginev1.ResumeSlicesRequest{Source: "orders", By: by, Reason: "r"},
		"reset orders/a --to 2026-01-01T00:00:00Z": &taskenginev1.ResetPlatformRequest{Source: "orders", Platform: "a", By: by, To: at},
		"reset orders/a --to 2026-01-01T00:00:00Z --from 2026-01-01T01:00:00+01:00 --reason r": &taskenginev1.ResetPlatformRequest{Source: "orders", Platform: "a", By: by, To: at, From: at, Reason: "r"},
		"retry orders/a": &taskenginev1.RetrySlicesRequest{Source: "orders", Platform: "a", By: by},
		"retry orders --from 2026-01-01T00:00:00Z --until 2026-01-01T00:00:01Z": &taskenginev1.RetrySlicesRequest{Source: "orders", By: by, From: at, Until: timestamppb.New(at.AsTime().Add(time.Second))},
		"pause records": &taskenginev1.PauseSourceRequest{Name: "records"},
	} {
		n := new(sliceNode)
		if r := n.on(t, line); r.code != 0 {
			t.Errorf("%s ends with %d: %s", line, r.code, r.stderr)
			continue
		}
		if diff := cmp.Diff([]proto.Message{want}, n.asked, protocmp.Transform()); diff != "" {
			t.Errorf("%s asks for (-want +got)\n%s", line, diff)
		}
	}
	for _, line := range []string{
		"set orders", "set orders interval", "set orders =5m", "set orders lag=1s lag=2s", "set / lag=1s", "set orders/ lag=1s", "add orders", "remove orders", "reset orders/a",
		"reset orders --to 2026-01-01T00:00:00Z", "retry orders/a --from 2026-01-01T00:00:00Z --until 2026-01-01T00:00:00Z", "show orders --limit 0", "pause /a",
		"pause orders/a --prefix a", "set orders/a --prefix a lag=1s", "remove orders/a --prefix a", "retry orders --prefix=", "pause records --prefix a", "remove orders/a --dry-run",
		"add orders/a lag", "apply orders", "apply orders/a --file -", "apply orders --file none", "apply orders --file - --prefix a", "apply orders --file - --prune", "export orders/a",
	} {
		n := new(sliceNode)
		if r := n.on(t, line); r.code != exit.Usage || len(n.asked) > 0 {
			t.Errorf("%s ends with %d, and has asked for %v: %s", line, r.code, n.asked, r.stderr)
		}
	}
}

func TestACommandWaitsUntilThePlatformHasCarriedOutItsOrder(t *testing.T) {
	for _, line := range []string{"set orders/a lag=1s", "set orders lag=1s", "pause orders/a", "retry orders/a"} {
		n := &sliceNode{looks: 3}
		if r := n.on(t, line); r.code != 0 || n.looks >= 0 {
			t.Errorf("%s ends with %d, %d looks too early: %s", line, r.code, n.looks, r.stderr)
		}
		n = &sliceNode{looks: 1 << 30}
		if r := n.on(t, line+" --timeout 1ms"); r.code != exit.Unavailable || !strings.Contains(r.stderr, "the order is stored, but") {
			t.Errorf("%s ends with %d: %s", line, r.code, r.stderr)
		}
		n = &sliceNode{looks: 1 << 30}
		if r := n.on(t, line+" --timeout 0s"); r.code != 0 {
			t.Errorf("%s ends with %d: %s", line, r.code, r.stderr)
		}
	}
}

func TestSourcesOfSlicesAreShown(t *testing.T) {
	for line, want := range map[string][]string{
		"list":                      {"TOPICS", "PLATFORMS", "1m30s"},
		"show orders":               {"3; stopped 1", "lag=3s (live)", "PLATFORM ", "\na ", "\nb ", "\nc "},
		"show orders --limit 1":     {"\na "},
		"show orders --prefix b":    {"\nb "},
		"show orders/a":             {"version    7", "interval=1m0s (own)", "by anna: pause: holidays", "failed", "t2", "made 9, done 6"},
		"pause orders/a":            {"PLATFORM", "active"},
		"export orders":             {`{"name":"a","values":{"interval":"1m0s"},"version":7}` + "\n" + `{"name":"b",`, `{"name":"c",`},
		"export orders --prefix b":  {`{"name":"b",`},
		"show orders -o json":       {`"platforms":[{"source":"orders","name":"a"`, `"values":[{"name":"lag","value":"3s","from":"live"}]`, `"name":"c"`},
		"show orders/a -o json":     {`"slices":[{"start":"2026-03-28T01:30:00Z"`, `"task_id":"t2"}]`},
		"list -o json":              {`{"name":"all",`, `{"name":"orders","type":"fetch","platform_count":3,`},
		"retry orders -o json":      {`{"name":"orders","platforms":3}`},
		"set orders lag=1s -o json": {`"platform_count":3`},
		"resume orders/a -o json":   {`{"source":"orders","name":"a","cursor":"2026-03-28T01:30:00Z"`},
		"show records":              {"topics"},
	} {
		r := new(sliceNode).on(t, line)
		if r.code != 0 {
			t.Errorf("%s ends with %d: %s", line, r.code, r.stderr)
		}
		for _, words := range want {
			if !strings.Contains(r.stdout, words) {
				t.Errorf("%s has no %q:\n%s", line, words, r.stdout)
			}
		}
		if isCut := strings.Contains(line, "--limit 1"); isCut != strings.Contains(r.stderr, "more platforms") || isCut && strings.Contains(r.stdout, "\nb ") {
			t.Errorf("%s: %s\n%s", line, r.stdout, r.stderr)
		}
	}
}

func TestAnOrderForTheSourceOfOneNodeNamesThisNode(t *testing.T) {
	for _, line := range []string{"set orders lag=1s", "pause orders", "resume orders", "retry orders"} {
		for _, node := range []string{"", "n1"} {
			for _, format := range []string{"", " -o json"} {
				r := (&sliceNode{onlyOn: node}).on(t, line+format)
				says := strings.Contains(r.stderr, "is for the platforms of the node n1 only, because nodes have stores of their own")
				hasField := strings.Contains(r.stdout, `"only_on":"n1"`)
				if r.code != 0 || says != (node != "") || hasField != (node != "" && format != "") || strings.Contains(r.stdout, "only_on") != hasField {
					t.Errorf("%s%s on node %q ends with %d: %s\n%s", line, format, node, r.code, r.stdout, r.stderr)
				}
			}
		}
	}
	if r := (&sliceNode{onlyOn: "n1"}).on(t, "show orders"); r.code != 0 || !strings.Contains(r.stdout, "only on    n1\n") {
		t.Errorf("source show ends with %d: %s\n%s", r.code, r.stdout, r.stderr)
	}
}

// What source show prints of a cursor is what source reset --from takes.
func TestTheCursorOfAPlatformIsShownExactly(t *testing.T) {
	p := aPlatform("a")
	p.Cursor = timestamppb.New(time.Date(2026, 1, 1, 0, 0, 0, 250_000_000, time.UTC))
	if text := platformText(p); !strings.Contains(text, "2026-01-01T00:00:00.25Z\n") {
		t.Error(text)
	}
}

// A shell completes the names of sources and of platforms, and nothing where there is none.
func TestTheNamesOfSourcesAreCompleted(t *testing.T) {
	for begun, want := range map[string][]string{
		"":         {"all", "orders", "orders/"},
		"or":       {"orders", "orders/"},
		"x":        nil,
		"orders/":  {"orders/a", "orders/b"},
		"orders/b": {"orders/b"},
	} {
		n := new(sliceNode)
		_, h := taskenginev1connect.NewTaskServiceHandler(n)
		s := httptest.NewServer(h)
		res := cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, "", "__complete", "source", "show", begun)
		s.Close()
		var got []string
		for line := range strings.Lines(res.stdout) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, ":") {
				got = append(got, line)
			}
		}
		if res.code != 0 || !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q; %+v", begun, got, want, res)
		}
	}
	if res := cli(t, []string{"TASKENGINE_ADDRESS=127.0.0.1:1"}, "", "__complete", "source", "show", ""); res.code != 0 || !strings.HasPrefix(res.stdout, ":4") {
		t.Errorf("without a node: %+v", res)
	}
}
