package capacity_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/capacity"
	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/internal/machine"
)

// curves returns the curves of a machine with round numbers.
func curves() *capacity.Curves {
	us := time.Microsecond
	return &capacity.Curves{
		Schema: capacity.Schema, Store: "pebble", Machine: machine.Info{Cores: 2},
		KeptRow: 500, KeptPayload: 1, Base: 50 << 20, Trigger: 500,
		Costs: sim.Costs{
			Submit: 2 * us, Ack: 5 * us, Commit: 10 * us, Insert: us, Swap: us, Tell: 2 * us, Start: us, End: us,
			Sync: []sim.Idle{{Takes: sim.Quantiles{200 * us, 300 * us, 900 * us}}}, SyncCPU: 50 * us,
			CommitBytes: 4096, InsertBytes: 300, SwapBytes: 200, Amplify: 1,
		},
	}
}

const fewTasks = 1000

func plan(t *testing.T, text string) *capacity.Answer {
	t.Helper()
	a, err := capacity.Plan(curves(), read(t, text), fewTasks)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestNoMoreNodesAreAnsweredThanAStoreCanHave(t *testing.T) {
	a := plan(t, "objective: p99 start < 300ms\ntypes: {a: {rate: 175/s, duration: 32ms, cpu: 1}}")
	if a.Met || a.Nodes != 1 || a.BreaksFirst != "cpu" {
		t.Errorf("5.6 cores are busy, the one node of pebble has 2, and the answer is %+v", a)
	}
}

func TestAnObjectiveThatCannotBeMetIsNot(t *testing.T) {
	a := plan(t, "objective: p99 start < 50ms\nlimits: {x: {max: 2}}\ntypes: {a: {rate: 50/s, duration: 80ms, limits: [x]}}")
	if a.Met || a.BreaksFirst != "limit x" || a.HeadRoom >= 1 {
		t.Errorf("4 are busy with a limit of 2, and the answer is %+v", a)
	}
	a = plan(t, "objective: p99 end < 5ms\ntypes: {a: {rate: 20/s, duration: 20ms}}")
	if a.Met || a.BreaksFirst != "the handlers themselves" {
		t.Errorf("a handler takes longer than allowed, and the answer is %+v", a)
	}
}

func TestSizesFollowTheRetention(t *testing.T) {
	a := plan(t, "objective: p99 start < 50ms\ngrowth: 2\ntypes: {a: {rate: 50/s, peak: 3, payload: 1500B, duration: 5ms, retention: {done: 1d}}}")
	if want := 2 * 50 * 86400.0 * (500 + 1500); math.Abs(a.StoreBytes-want) > 1 {
		t.Errorf("the store has %.0f bytes, want %.0f: the mean rate counts, not the peak", a.StoreBytes, want)
	}
	if a.Rate != 300 {
		t.Errorf("the busiest rate is %v", a.Rate)
	}
}

func TestCurvesAreReadAsTheyWereWritten(t *testing.T) {
	var file bytes.Buffer
	if err := curves().Write(&file); err != nil {
		t.Fatal(err)
	}
	written := file.String()
	c, err := capacity.ReadCurves(&file)
	if err != nil || !reflect.DeepEqual(c, curves()) {
		t.Errorf("they are %+v, %v", c, err)
	}
	example, err := os.Open("testdata/curves.json")
	if err != nil {
		t.Fatal(err)
	}
	defer example.Close()
	if _, err := capacity.ReadCurves(example); err != nil {
		t.Errorf("the curves of the documentation: %v", err)
	}
	is, next := fmt.Sprintf(`"schema":%d`, capacity.Schema), fmt.Sprintf(`"schema":%d`, capacity.Schema+1)
	newer := strings.Replace(written, is, next, 1)
	if _, err := capacity.ReadCurves(strings.NewReader(newer)); !errors.Is(err, capacity.ErrSchema) {
		t.Errorf("newer curves: %v", err)
	}
	for _, text := range []string{"", "{}", "{" + is + "}", "[]"} {
		if _, err := capacity.ReadCurves(strings.NewReader(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// A simulation costs what its attempts cost, however long they take and whatever comes of them.
func TestASimulationCostsAsMuchAsItsAttempts(t *testing.T) {
	const perAttempt, beside = 40, 10_000 // events
	for what, one := range map[string]struct {
		text     string
		attempts float64 // of a task
	}{
		"short":           {"rate: 1/s, duration: 1s", 1},
		"an hour":         {"rate: 1/s, duration: 1h", 1},
		"three hours":     {"rate: 1/s, duration: {exponential: 3h}", 1},
		"retried":         {"rate: 1/s, duration: 1h, retries: 0.5", 2},
		"often":           {"rate: 1/s, duration: {exponential: 2h}, retries: 0.9, attempts: forever, retry_after: 1s", 2},
		"again and again": {"rate: 10/s, duration: 1ms, retries: 0.95, attempts: 100, retry_after: 1s", 2},
	} {
		t.Run(what, func(t *testing.T) {
			a := plan(t, "objective: p99 start < 1m\ntypes: {a: {"+one.text+"}}")
			for _, s := range a.Steps {
				if most := int64(perAttempt*one.attempts*fewTasks) + beside; s.Events > most {
					t.Errorf("%s (%d slots, %v times the rates): %d events for %d tasks, want at most %d", s.Why, s.Slots, s.Factor, s.Events, fewTasks, most)
				}
			}
		})
	}
}

// Of attempts that take longer than the load is simulated otherwise, as many run at once as in the long run.
func TestTheHeadRoomOfLongAttemptsEndsWhereTheSlotsAreFull(t *testing.T) {
	a := plan(t, "objective: p99 start < 10m\nmargin: 1\nnode: {slots: 36}\ntypes: {a: {rate: 0.005/s, duration: 1h, arrivals: constant}}")
	if !a.Met || a.HeadRoom < 1.8 || a.HeadRoom > 2.3 {
		t.Errorf("18 of 36 slots are busy on average, and the answer is %+v", a)
	}
}
