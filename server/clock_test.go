package server_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// clocked is a cluster with a clock that is behind the machine's.
type clocked struct {
	*local.Node
	behind time.Duration
}

func (c clocked) ClockAt(t time.Time) (time.Time, time.Duration, bool) {
	return t.Add(-c.behind), time.Millisecond, true
}

func TestANodeTellsHowFarItsClockIsOff(t *testing.T) {
	for _, c := range []struct {
		behind time.Duration
		line   string
	}{
		{10 * time.Minute, "[-] clock: 10m0s ahead of the clock of the cluster, give or take 1ms; tasks go by the clock of the cluster\n"},
		{-10 * time.Minute, "[-] clock: 10m0s behind the clock of the cluster, give or take 1ms; tasks go by the clock of the cluster\n"},
		{20 * time.Millisecond, "[+] clock: ok, 20ms ahead of the clock of the cluster, give or take 1ms\n"},
	} {
		n := newMember(t, clocked{local.New(), c.behind})
		l := admin(t, n.health, n.metrics)
		if code, body := get(t, l, "/readyz?verbose", ""); code != 200 || !strings.Contains(body, c.line) {
			t.Errorf("in detail, the answer is %d: %s", code, body)
		}
		if code, body := get(t, l, "/readyz", ""); code != 200 || body != "ok\n" {
			t.Errorf("the answer is %d: %s", code, body)
		}
		if _, series := scrape(t, n); series["taskengine_clock_offset_seconds"] != c.behind.Seconds() {
			t.Errorf("the metric is %v, want %v", series["taskengine_clock_offset_seconds"], c.behind.Seconds())
		}
	}
	if text, _ := scrape(t, newNode(t)); strings.Contains(text, "clock_offset") {
		t.Error("a node alone reports an offset of its clock")
	}
}

func TestATimeFromNowIsByTheClockOfTheCluster(t *testing.T) {
	n := newMember(t, clocked{local.New(), 10 * time.Minute})
	begin := n.engine.Now()
	id, err := task.ParseID(n.submit(t, &taskenginev1.NewTask{Type: "echo", In: durationpb.New(time.Hour)}))
	if err != nil {
		t.Fatal(err)
	}
	due := func() time.Duration {
		t.Helper()
		row, err := n.engine.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return row.ReadyAt.Sub(begin)
	}
	if got := due(); got < time.Hour || got > time.Hour+5*time.Minute {
		t.Errorf("a task for in an hour is due after %v", got)
	}
	if _, err := n.client(t).Reschedule(t.Context(), &taskenginev1.RescheduleRequest{Id: id.String(), Time: &taskenginev1.RescheduleRequest_In{In: durationpb.New(2 * time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	if got := due(); got < 2*time.Hour || got > 2*time.Hour+5*time.Minute {
		t.Errorf("a task that was put off by two hours is due after %v", got)
	}
}

// leased is a membership with another lease than the configured one.
type leased struct {
	coord.Membership
	lease time.Duration
}

func (l leased) Lease() time.Duration { return l.lease }

func TestANodeTellsTheLeaseThatItReallyHas(t *testing.T) {
	n := newMember(t, leased{local.New(), 7 * time.Second})
	if _, body := get(t, admin(t, n.health, n.metrics), "/readyz?verbose", ""); !strings.Contains(body, "[+] member: ok, its lease is 7s\n") {
		t.Errorf("the answer is %s", body)
	}
}
