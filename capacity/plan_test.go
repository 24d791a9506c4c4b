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

func TestTheSmallestNumberOfSlotsThatDoesIsAnswered(t *testing.T) {
	text := "objective: p99 start < 80ms\nmargin: 1\ntypes: {a: {rate: 100/s, duration: {exponential: 80ms}}}"
	a := plan(t, text)
	if !a.Met || a.Nodes != 1 || a.Slots <= 8 || a.Slots > 30 || a.At >= 80*time.Millisecond {
		t.Fatalf("8 slots are busy on average, and the answer is %+v", a)
	}
	for n, met := range map[int]bool{a.Slots: true, a.Slots - 1: false} {
		if got := plan(t, fmt.Sprintf("node: {slots: %d}\n%s", n, text)); got.Met != met || got.Slots != n {
			t.Errorf("with %d slots the objective is met: %v, want %v", n, got.Met, met)
		}
	}
}

func TestMoreSlotsAreNeverWorse(t *testing.T) {
	last := time.Hour
	for _, n := range []int{9, 12, 20} {
		a := plan(t, fmt.Sprintf("objective: p99 start < 10s\nnode: {slots: %d}\ntypes: {a: {rate: 100/s, duration: {exponential: 80ms}}}", n))
		if a.At > last+last/20 {
			t.Errorf("with %d slots it takes %v, with fewer %v", n, a.At, last)
		}
		last = a.At
	}
}

func TestHeadRoomShrinksAsTheRateGrows(t *testing.T) {
	last := math.Inf(1)
	for _, rate := range []int{25, 50, 100} {
		a := plan(t, fmt.Sprintf("objective: p99 start < 100ms\nnode: {slots: 20}\ntypes: {a: {rate: %d/s, duration: 80ms}}", rate))
		if !a.Met || a.HeadRoom >= last || a.HeadRoom < 1 {
			t.Errorf("at %d/s the head-room is %v, before it was %v", rate, a.HeadRoom, last)
		}
		if at := a.HeadRoom * float64(rate); at < 190 || at > 265 {
			t.Errorf("20 slots and 80 ms are 250/s at most, and the head-room ends at %.0f/s", at)
		}
		last = a.HeadRoom
	}
}

func TestWhatBreaksFirstIsNamed(t *testing.T) {
	for want, text := range map[string]string{
		"slots":                     "node: {slots: 12}\ntypes: {a: {rate: 75/s, duration: 80ms}}",
		"limit partner":             "node: {slots: 500}\nlimits: {partner: {max: 8}}\ntypes: {a: {rate: 75/s, duration: 80ms, limits: [partner]}}",
		"limit slow":                "node: {slots: 500}\nlimits: {slow: {rate: 100/s, burst: 1}}\ntypes: {a: {rate: 75/s, duration: 5ms, limits: [slow]}}",
		"cpu":                       "node: {slots: 500}\ntypes: {a: {rate: 75/s, duration: 16ms, cpu: 1}}",
		"limit types.a.concurrency": "node: {slots: 500}\ntypes: {a: {rate: 75/s, duration: 80ms, concurrency: 9}}",
	} {
		t.Run(want, func(t *testing.T) {
			if a := plan(t, "objective: p99 start < 200ms\n"+text); a.BreaksFirst != want || !a.Met {
				t.Errorf("%s breaks first: %v", a.BreaksFirst, a.Shares)
			}
		})
	}
}

func TestNoMoreNodesAreAnsweredThanAStoreCanHave(t *testing.T) {
	a := plan(t, "objective: p99 start < 300ms\ntypes: {a: {rate: 175/s, duration: 32ms, cpu: 1}}")
	if a.Met || a.Nodes != 1 || a.BreaksFirst != "cpu" {
		t.Errorf("5.6 cores are busy, the one node of pebble has 2, and the answer is %+v", a)
	}
}

func TestSlotsAndCoresHaveRoomForTheMargin(t *testing.T) {
	const text = "objective: p99 start < 80ms\ntypes: {a: {rate: 100/s, duration: {exponential: 80ms}}}"
	none := plan(t, "margin: 1\n"+text)
	usual := plan(t, text)
	double := plan(t, "margin: 2\n"+text)
	if none.Margin != 1 || usual.Margin != 1.25 || double.Margin != 2 {
		t.Errorf("the margins are %v, %v and %v", none.Margin, usual.Margin, double.Margin)
	}
	if none.Slots >= usual.Slots || usual.Slots >= double.Slots {
		t.Errorf("with more margin the slots are %d, %d and %d", none.Slots, usual.Slots, double.Slots)
	}
	for _, a := range []*capacity.Answer{usual, double} {
		if a.HeadRoom < 0.97*a.Margin { // it is found by halves, and rounded down
			t.Errorf("with a margin of %v the head-room is %v", a.Margin, a.HeadRoom)
		}
	}
	tight := plan(t, "objective: p99 start < 80ms\nlimits: {x: {max: 14}}\ntypes: {a: {rate: 100/s, duration: {exponential: 80ms}, limits: [x]}}\nmargin: 3")
	if !tight.Met || tight.Margin != 1 || tight.HeadRoom >= 3 {
		t.Errorf("a limit leaves no such room, and the answer is %+v", tight)
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

func TestTheSameLoadGetsTheSameAnswer(t *testing.T) {
	const text = "objective: p99 start < 30ms\ntypes: {a: {rate: 80/s, duration: {p50: 5ms, p99: 90ms}, retries: 0.05, retry_after: 1s}}"
	if a, b := plan(t, text), plan(t, text); !reflect.DeepEqual(a, b) {
		t.Errorf("the answers are %+v and %+v", a, b)
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
