//go:build !race

package capacity_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/taskengine/taskengine/capacity"
)

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

func TestTheSameLoadGetsTheSameAnswer(t *testing.T) {
	const text = "objective: p99 start < 30ms\ntypes: {a: {rate: 80/s, duration: {p50: 5ms, p99: 90ms}, retries: 0.05, retry_after: 1s}}"
	if a, b := plan(t, text), plan(t, text); !reflect.DeepEqual(a, b) {
		t.Errorf("the answers are %+v and %+v", a, b)
	}
}
