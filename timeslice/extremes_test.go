//go:build !race

package timeslice_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

// With any permitted values, extreme ones too, the values are in force, no slice is made twice, too early or too long, and all slices end.
func TestExtremeValuesTileTheTimeLine(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { extremeLife(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

// extremeValues returns values that are permitted together. Each is left out now and then: then it has its default beside the others.
func extremeValues(random *rand.Rand) (map[string]string, time.Duration) {
	interval := []time.Duration{time.Second, 1001 * time.Millisecond, 9 * time.Second, time.Minute, time.Hour, 24 * time.Hour}[random.IntN(6)]
	values := map[string]string{"interval": interval.String()}
	for _, one := range []struct {
		name string
		of   []time.Duration
	}{
		{"overlap", []time.Duration{0, 1, time.Millisecond, interval / 2, interval - time.Millisecond, interval - 1}},
		{"lag", []time.Duration{0, 1, interval - 1, interval, 100 * interval, timeslice.MostSpan}},
		{"spread", []time.Duration{0, 1, time.Millisecond, interval}},
		{"catch_up_interval", []time.Duration{interval, interval + 1, 2*interval - 1, 2 * interval, 1000 * interval, timeslice.MostSpan}},
		{"timeout", []time.Duration{0, 1, time.Millisecond, interval, 100 * interval}},
		{"retry_interval", []time.Duration{0, 1, time.Second, 100 * interval}},
		{"probe", []time.Duration{time.Second, interval, min(10*interval, 10*time.Hour)}},
		{"least_part", []time.Duration{time.Millisecond, interval / 2, interval, 100 * interval}},
	} {
		if d := one.of[random.IntN(len(one.of))]; random.IntN(3) > 0 {
			values[one.name] = min(d, timeslice.MostSpan).String()
		}
	}
	for _, one := range []struct {
		name string
		of   []int
	}{
		{"retries", []int{0, 1, timeslice.MostRetries}},
		{"max_open", []int{1, 2, timeslice.MostOpen}},
		{"breaker", []int{0, 1, 2, timeslice.MostOpen}},
		{"threads.node", []int{0, 1, timeslice.MostThreads}},
		{"threads.cluster", []int{0, 1, timeslice.MostThreads}},
	} {
		if random.IntN(3) > 0 {
			values[one.name] = strconv.Itoa(one.of[random.IntN(len(one.of))])
		}
	}
	if random.IntN(2) == 0 {
		values["order"] = "in_order"
	}
	return values, interval
}

func extremeLife(t *testing.T, random *rand.Rand) {
	values, interval := extremeValues(random)
	if random.IntN(2) == 0 {
		values["start"] = epoch.Add(-time.Duration(random.IntN(300)) * interval).Add(-time.Nanosecond).Format(time.RFC3339Nano)
		if start := epoch.Add(-300 * interval); start.Unix() < 0 {
			values["start"] = "1970-01-01T00:00:00Z"
		}
	}
	l := newLine(t, values)
	if _, ok := values["spread"]; !ok {
		l.state.Layers.File.Spread = nil
	}
	l.state.Layers.Platforms = []int{0, 1, 1_000_000}[random.IntN(3)]
	check := func() {
		used := l.state.Used
		if l.state.Problem != "" || used == nil {
			t.Fatalf("%v cannot be: %s", values, l.state.Problem)
		}
		for _, one := range l.state.Layers.Origins(used) {
			if _, isSet := values[one.Name]; one.From == timeslice.FromBefore || isSet != (one.From == timeslice.FromFile) && one.Name != "spread" {
				t.Fatalf("%v: the origin of %s=%s is %s", values, one.Name, one.Value, one.From)
			}
		}
		for _, one := range l.last.Made {
			length := one.End.Sub(one.Start)
			if one.End.Add(used.Lag + l.platform.Delay(used.Spread)).After(l.now) {
				t.Fatalf("%v: slice %+v was made at %v, before it was due", values, one, l.now)
			}
			if length%used.Interval != 0 || length > used.CatchUp {
				t.Fatalf("%v: slice %+v has the length %v", values, one, length)
			}
			q := l.last.Request(one)
			w, ok, err := timeslice.WorkOf(&task.Task{Headers: q.Headers, Payload: q.Payload})
			if !ok || err != nil || !w.From.Add(used.Overlap).Equal(one.Start) {
				t.Fatalf("%v: slice %+v is the task %+v, %v", values, one, w, err)
			}
			if _, isSet := values["least_part"]; !isSet {
				if _, ok := w.Halves(); !ok {
					t.Fatalf("%v: slice %+v cannot be split", values, one)
				}
			}
		}
		if running, _ := l.state.Running(); running > used.MaxOpen {
			t.Fatalf("%v: %d slices are open", values, running)
		}
	}
	l.run()
	check()
	for range 20 {
		l.until(l.now.Add(min(time.Duration(random.IntN(5000))*(interval/1000), 6*time.Hour)), func() { check(); l.endSome(random) })
		check()
	}
	// All is well from here on: the breaker ends, and everything that was due is fetched.
	l.order(timeslice.Order{Retry: &timeslice.Range{}})
	used := *l.state.Used
	well := func() { check(); l.end(timeslice.Done)() }
	l.until(l.now.Add(17*used.Probe+400*interval), well)
	l.order(timeslice.Order{Retry: &timeslice.Range{}})
	l.until(l.now.Add(2*used.Probe+10*interval), well)
	l.tiles()
	if due := l.now.Add(-used.Lag - l.platform.Delay(used.Spread) - 3*interval - time.Minute); l.state.Low().Before(due) && (used.Start.IsZero() || used.Start.Before(due)) {
		t.Errorf("%v: the low-water mark is %v at %v: %+v", values, l.state.Low(), l.now, l.state)
	}
	if _, failed := l.state.Running(); failed > 0 || l.state.Stopped != nil {
		t.Errorf("%v: %d slices have failed: %+v", values, failed, l.state)
	}
}
