package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// limitNode is a node that has one limit, and keeps the last request.
type limitNode struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
	asked   proto.Message
	fails   error
	watched [][]*taskenginev1.Limit // the limits in each response of a watch; after the last one the node is gone
}

var (
	aMax   = uint32(5)
	aLimit = &taskenginev1.Limit{
		Name: "partner", Value: "ac/me", Configured: true, Of: "payouts", Per: "payload.partner", Scope: "cluster",
		Max: 5, Rate: &taskenginev1.Rate{Count: 20, Per: durationpb.New(time.Minute), Burst: 40}, Paused: true,
		ConfiguredMax: 3, ConfiguredRate: &taskenginev1.Rate{Count: 9, Per: durationpb.New(time.Second)},
		Setting: &taskenginev1.LimitSetting{
			Max: &aMax, Rate: &taskenginev1.Rate{Count: 20, Per: durationpb.New(time.Minute), Burst: 40}, Paused: true,
			Version: 1 << 60, By: "eve@desk", Node: "n1", At: timestamppb.New(time.Unix(1, 0)),
		},
		Inherited: []*taskenginev1.LimitSetting{{Value: "a*", Max: &aMax, Version: 7, At: timestamppb.New(time.Unix(1, 0)), Problem: "too much"}},
		Used:      4,
		Held:      6,
	}
)

const aLimitJSON = `{"name":"partner","value":"ac/me","configured":true,"of":"payouts","per":"payload.partner","scope":"cluster",` +
	`"max":5,"rate":{"count":20,"per":"1m","burst":40},"paused":true,"configured_max":3,"configured_rate":{"count":9,"per":"1s","burst":0},` +
	`"setting":{"max":5,"rate":{"count":20,"per":"1m","burst":40},"paused":true,"version":1152921504606846976,"by":"eve@desk","node":"n1","at":"1970-01-01T00:00:01Z"},` +
	`"inherited":[{"max":5,"paused":false,"version":7,"at":"1970-01-01T00:00:01Z","value":"a*","problem":"too much"}],"used":4,"held":6,"uses":[]}`

func (n *limitNode) ListLimits(context.Context, *taskenginev1.ListLimitsRequest) (*taskenginev1.ListLimitsResponse, error) {
	return &taskenginev1.ListLimitsResponse{Limits: []*taskenginev1.Limit{aLimit, {Name: "total", Configured: true, Scope: "node", Used: 2}}}, n.fails
}

func (n *limitNode) GetLimit(_ context.Context, req *taskenginev1.GetLimitRequest) (*taskenginev1.GetLimitResponse, error) {
	n.asked = req
	return &taskenginev1.GetLimitResponse{Limit: aLimit}, n.fails
}

func (n *limitNode) SetLimit(_ context.Context, req *taskenginev1.SetLimitRequest) (*taskenginev1.SetLimitResponse, error) {
	n.asked = req
	return &taskenginev1.SetLimitResponse{Limit: aLimit}, n.fails
}

func (n *limitNode) UnsetLimit(_ context.Context, req *taskenginev1.UnsetLimitRequest) (*taskenginev1.UnsetLimitResponse, error) {
	n.asked = req
	return &taskenginev1.UnsetLimitResponse{Limit: aLimit}, n.fails
}

func (n *limitNode) WatchLimits(_ context.Context, _ *taskenginev1.WatchLimitsRequest, s *connect.ServerStream[taskenginev1.WatchLimitsResponse]) error {
	if len(n.watched) == 0 {
		return connect.NewError(connect.CodeInternal, errors.New("gone"))
	}
	limits := n.watched[0]
	n.watched = n.watched[1:]
	return s.Send(&taskenginev1.WatchLimitsResponse{Limits: limits})
}

func (n *limitNode) WhyLimit(_ context.Context, req *taskenginev1.WhyLimitRequest) (*taskenginev1.WhyLimitResponse, error) {
	n.asked = req
	at := timestamppb.New(time.Unix(2, 0))
	return &taskenginev1.WhyLimitResponse{
		Limit: &taskenginev1.Limit{Name: "total", Configured: true, Scope: "node", Used: 2}, NextStart: at,
		Tasks:  []*taskenginev1.LimitTask{{Id: "i", Type: "mail", Slots: 2, StartedAt: at}, {Id: "j", Type: "mail", Slots: 1}},
		Queued: []*taskenginev1.LimitQueue{{Type: "mail", Tasks: 3}},
		Nodes: []*taskenginev1.LimitNode{
			{Node: "n1", Held: 2, Want: 2, Since: at}, {Node: "n2", Held: 1, Want: 4, Since: at}, {Want: 5, Since: at},
		},
		NodesProblem: "silence",
	}, n.fails
}

// on runs a subcommand in this process against a node.
func (n *limitNode) on(t *testing.T, args ...string) result {
	t.Helper()
	_, h := taskenginev1connect.NewTaskServiceHandler(n)
	s := httptest.NewServer(h)
	defer s.Close()
	return cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, "", args...)
}

func TestLimitsAreChangedAsTheFlagsSay(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	rate := func(count, burst uint32, per time.Duration) *taskenginev1.Rate {
		return &taskenginev1.Rate{Count: count, Per: durationpb.New(per), Burst: burst}
	}
	most := func(n uint32) *uint32 { return &n }
	version := func(n uint64) *uint64 { return &n }
	yes, no := true, false
	for line, want := range map[string]proto.Message{
		"get payouts":                                       &taskenginev1.GetLimitRequest{Name: "payouts"},
		"get partner/a/c*":                                  &taskenginev1.GetLimitRequest{Name: "partner", Value: "a/c*"},
		"set payouts --max 10":                              &taskenginev1.SetLimitRequest{Name: "payouts", Max: most(10)},
		"set payouts --max 0 --if-version 0":                &taskenginev1.SetLimitRequest{Name: "payouts", Max: most(0), IfVersion: version(0)},
		"set partner/acme --max 5 --rate 20/1s":             &taskenginev1.SetLimitRequest{Name: "partner", Value: "acme", Max: most(5), Rate: rate(20, 0, time.Second)},
		"set partner --rate 100/m --burst 7 --if-version 3": &taskenginev1.SetLimitRequest{Name: "partner", Rate: rate(100, 7, time.Minute), IfVersion: version(3)},
		"set partner --rate none":                           &taskenginev1.SetLimitRequest{Name: "partner", Rate: &taskenginev1.Rate{}},
		"pause partner/acme":                                &taskenginev1.SetLimitRequest{Name: "partner", Value: "acme", Paused: &yes},
		"resume partner/acme --if-version 4":                &taskenginev1.SetLimitRequest{Name: "partner", Value: "acme", Paused: &no, IfVersion: version(4)},
		"unset partner/acme":                                &taskenginev1.UnsetLimitRequest{Name: "partner", Value: "acme"},
		"unset partner --if-version 9":                      &taskenginev1.UnsetLimitRequest{Name: "partner", IfVersion: version(9)},
		"why partner/acme":                                  &taskenginev1.WhyLimitRequest{Name: "partner", Value: "acme"},
	} {
		n := new(limitNode)
		if r := n.on(t, append([]string{"limit"}, strings.Fields(line)...)...); r.code != 0 {
			t.Errorf("%s ends with %d: %s", line, r.code, r.stderr)
			continue
		}
		by := ""
		switch req := n.asked.(type) {
		case *taskenginev1.SetLimitRequest:
			by, req.By = req.GetBy(), ""
		case *taskenginev1.UnsetLimitRequest:
			by, req.By = req.GetBy(), ""
		default:
			by = "nobody@" + host
		}
		if user, at, ok := strings.Cut(by, "@"); !ok || user == "" || at != host {
			t.Errorf("%s says that %q asks", line, by)
		}
		if diff := cmp.Diff(want, n.asked, protocmp.Transform()); diff != "" {
			t.Errorf("%s asks for (-want +got)\n%s", line, diff)
		}
	}
}

func TestALimitInJSONIsTheContract(t *testing.T) {
	n := new(limitNode)
	for _, line := range []string{"get partner/ac/me", "set partner/ac/me --max 5", "unset partner/ac/me", "pause partner/ac/me", "resume partner/ac/me"} {
		if r := n.on(t, append(strings.Fields("-o json limit"), strings.Fields(line)...)...); r.stdout != aLimitJSON+"\n" {
			t.Errorf("%s writes\n%s, want\n%s", line, r.stdout, aLimitJSON)
		}
	}
	const total = `{"name":"total","configured":true,"scope":"node","max":0,"paused":false,"configured_max":0,"inherited":[],"used":2,"held":0,"uses":[]}`
	if r := n.on(t, "limit", "list", "-o", "json"); r.stdout != aLimitJSON+"\n"+total+"\n" {
		t.Errorf("list writes\n%s", r.stdout)
	}
	const why = `{"limit":` + total + `,"tasks":[{"id":"i","type":"mail","slots":2,"started_at":"1970-01-01T00:00:02Z"},` +
		`{"id":"j","type":"mail","slots":1}],"queued":[{"type":"mail","tasks":3}],"next_start":"1970-01-01T00:00:02Z",` +
		`"nodes":[{"node":"n1","held":2,"want":2,"since":"1970-01-01T00:00:02Z"},{"node":"n2","held":1,"want":4,"since":"1970-01-01T00:00:02Z"},` +
		`{"held":0,"want":5,"since":"1970-01-01T00:00:02Z"}],"nodes_problem":"silence","silent":[]}`
	if r := n.on(t, "limit", "why", "total", "-o", "json"); r.stdout != why+"\n" {
		t.Errorf("why writes\n%s", r.stdout)
	}
	unlimited, err := json.Marshal(messageJSON(&taskenginev1.LimitSetting{Rate: &taskenginev1.Rate{}}))
	if want := `{"rate":{"count":0,"burst":0},"paused":false,"version":0}`; err != nil || string(unlimited) != want {
		t.Errorf("a rate that is set to none gives %s, %v", unlimited, err)
	}
}

func TestALimitIsShownWithWhatIsConfigured(t *testing.T) {
	now := time.Unix(61, 0)
	want := `limit    partner/ac/me
of       payouts
per      payload.partner
scope    cluster
max      5, configured: 3
rate     20/1m burst 40, configured: 9/1s
paused   yes: tasks that count for it are not started
set      version 1152921504606846976 by eve@desk on n1, 1m0s ago
         set for partner/a*: max 5; version 7, 1m0s ago; problem: too much
used     4 by tasks of this node, which has 6 permits
`
	if diff := cmp.Diff(want, limitText(aLimit, now)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := limitText(&taskenginev1.Limit{Name: "gone"}, now); !strings.Contains(got, "max      none\n") || !strings.Contains(got, "has no effect here") {
		t.Errorf("a limit that is not configured is shown as\n%s", got)
	}
	res, err := new(limitNode).WhyLimit(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	why := whyLimitText(res, time.Unix(1, 0))
	for _, part := range []string{
		"used     2 by", "task i  mail  takes 2, for", "task j  mail  takes 1, being started", "waiting  3 ready tasks of type mail",
		"n1  has 2 permits; it got", "n2  has 1 permits and waits for 3 more", "(not known)  has no permits and waits for 5", "not known: silence", "next start is in 1s",
	} {
		if !strings.Contains(why, part) {
			t.Errorf("why does not say %q:\n%s", part, why)
		}
	}
}

func TestAWatchShowsEachChangeOnce(t *testing.T) {
	total := &taskenginev1.Limit{Name: "total", Configured: true, Max: 3}
	more := &taskenginev1.Limit{Name: "total", Configured: true, Max: 4, Setting: &taskenginev1.LimitSetting{Version: 1}}
	n := &limitNode{watched: [][]*taskenginev1.Limit{{total}, {total}, {aLimit, more}, {more}}}
	r := n.on(t, "limit", "watch", "-o", "json")
	var got []string
	for _, o := range parse(t, r.stdout) {
		word := o["name"].(string)
		if o["removed"] == true {
			word += " removed"
		}
		if o["used"] != nil {
			word += " used"
		}
		if o["setting"] != nil {
			word += " set"
		}
		got = append(got, word)
	}
	if want := []string{"total", "partner set", "total set", "partner removed"}; !cmp.Equal(want, got) {
		t.Errorf("the watch shows %q, want %q", got, want)
	}
	if r.code != 1 || !strings.Contains(r.stderr, "gone") {
		t.Errorf("when the node fails, the watch ends with %d: %s", r.code, r.stderr)
	}
	n.watched = [][]*taskenginev1.Limit{{total}, {aLimit, total}, {total}}
	r = n.on(t, "limit", "watch")
	for _, part := range []string{
		"total: max 3, rate none; as configured\n", "partner/ac/me: max 5, rate 20/1m burst 40, paused; set: version 1152921504606846976 by eve@desk on n1, ",
		"partner/ac/me: nothing is set any more\n",
	} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("the watch does not say %q:\n%s", part, r.stdout)
		}
	}
}

func TestBadInputOfLimitsIsRefusedBeforeANodeIsAsked(t *testing.T) {
	for line, want := range map[string]string{
		"get /acme":                             "has no name of a limit",
		"get partner/":                          "partner for the limit as a whole",
		"why /":                                 "has no name",
		"pause partner/":                        "no value after the slash",
		"resume /x":                             "has no name",
		"unset partner/":                        "no value",
		"set payouts":                           "neither --max nor --rate",
		"set payouts --if-version 1":            "neither --max nor --rate",
		"set payouts --max -1":                  "--max is -1; want 0 (no limit) to",
		"set payouts --max 2147483648":          "--max is 2147483648",
		"set payouts --max many":                "--max",
		"set payouts --rate 20":                 "such as 20/1s; none removes a rate",
		"set payouts --rate 0/1s":               "number of 1 or more",
		"set payouts --rate 20/0s":              "more than 0",
		"set payouts --rate 20/1":               "unit",
		"set payouts --rate -1/s":               "--rate",
		"set payouts --max 1 --burst 3":         "--burst belongs to a rate",
		"set payouts --rate 1/s --burst 0":      "--burst is 0",
		"set payouts --rate 1/s --burst -4":     "--burst is -4",
		"set payouts --rate none --burst 4":     "--burst needs a rate",
		"set payouts --max 1 --if-version -1":   "--if-version",
		"set payouts --max 1 --if-version last": "--if-version",
		"unset payouts --if-version x":          "--if-version",
		"pause payouts --if-version x":          "--if-version",
		"puase payouts":                         "did you mean pause",
		"list payouts":                          "one argument too many",
		"watch payouts":                         "one argument too many",
		"get":                                   "LIMIT is missing",
	} {
		n := new(limitNode)
		if r := n.on(t, append([]string{"limit"}, strings.Fields(line)...)...); r.code != 2 || !strings.Contains(r.stderr, want) || n.asked != nil {
			t.Errorf("%s ends with %d: %s", line, r.code, r.stderr)
		}
	}
}

func TestWhatANodeSaysOfALimitHasItsExitCode(t *testing.T) {
	for code, fails := range map[int]error{
		2: connect.NewError(connect.CodeInvalidArgument, errors.New("it says why")),
		4: connect.NewError(connect.CodeNotFound, errors.New("it says why")),
		5: connect.NewError(connect.CodeAborted, errors.New("it says why")),
		7: connect.NewError(connect.CodeUnavailable, errors.New("it says why")),
	} {
		n := &limitNode{fails: fails}
		for _, line := range []string{"list", "get l", "set l --max 1", "unset l", "pause l", "resume l", "why l"} {
			if r := n.on(t, append([]string{"limit"}, strings.Fields(line)...)...); r.code != code || !strings.Contains(r.stderr, "it says why") {
				t.Errorf("%s ends with %d, want %d: %s", line, r.code, code, r.stderr)
			}
		}
	}
	for _, line := range []string{"list", "get l", "set l --max 1", "unset l", "pause l", "resume l", "watch", "why l"} {
		r := cli(t, []string{"TASKENGINE_ADDRESS=127.0.0.1:1"}, "", append([]string{"limit"}, strings.Fields(line)...)...)
		if r.code != 7 || !strings.Contains(r.stderr, "is it running?") {
			t.Errorf("without a node %s ends with %d: %s", line, r.code, r.stderr)
		}
	}
}
