package policy_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// middle is the chance that does not change a delay, whatever the jitter is.
const middle = 0.5

func TestAStateThatWasChosenComesBeforeThePolicy(t *testing.T) {
	r := policy.Retry{Max: 1, On: map[string]policy.Rule{"bad": {Never: true}}}
	for _, c := range []struct {
		v     task.Verdict
		delay time.Duration
		again bool
	}{
		{task.Verdict{Next: task.Waiting, Delay: time.Hour, Class: "bad", GiveUp: true}, time.Hour, true},
		{task.Verdict{Next: task.Waiting, Delay: -1}, 0, true},
		{task.Verdict{Next: task.Failed, Delay: -1}, 0, false},
		{task.Verdict{Delay: time.Hour}, 0, false},
	} {
		if delay, again := r.Next(7, c.v, 0.5); delay != c.delay || again != c.again {
			t.Errorf("after %+v: %v, %v, want %v, %v", c.v, delay, again, c.delay, c.again)
		}
	}
}

func TestABackoffGrowsAsItsKindSays(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		backoff policy.Backoff
		want    []time.Duration // after the first attempt, the second, …
	}{
		"exponential": {policy.Backoff{Initial: s, Factor: 2}, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s}},
		"exponential with a maximum": {
			policy.Backoff{Initial: s, Factor: 3, Max: 10 * s},
			[]time.Duration{s, 3 * s, 9 * s, 10 * s, 10 * s},
		},
		"exponential without a factor":        {policy.Backoff{Initial: s}, []time.Duration{s, s, s}},
		"exponential with a maximum below it": {policy.Backoff{Initial: s, Factor: 2, Max: s / 2}, []time.Duration{s / 2, s / 2}},
		"linear":                              {policy.Backoff{Kind: policy.Linear, Initial: s}, []time.Duration{s, 2 * s, 3 * s, 4 * s}},
		"linear with a maximum":               {policy.Backoff{Kind: policy.Linear, Initial: s, Max: 5 * s / 2}, []time.Duration{s, 2 * s, 5 * s / 2, 5 * s / 2}},
		"fixed": {
			policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{5 * s, s, 1000 * time.Hour}, Max: s},
			[]time.Duration{5 * s, s, 1000 * time.Hour, 1000 * time.Hour},
		},
		"fixed without delays": {policy.Backoff{Kind: policy.Fixed, Initial: s}, []time.Duration{0, 0}},
		"none":                 {policy.Backoff{Kind: policy.None, Initial: s, Jitter: 1}, []time.Duration{0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, want := range c.want {
				if got := c.backoff.After(uint32(i+1), middle); got != want {
					t.Errorf("after attempt %d the delay is %v, want %v", i+1, got, want)
				}
			}
			if got, first := c.backoff.After(0, middle), c.backoff.After(1, middle); got != first {
				t.Errorf("after attempt 0 the delay is %v, want %v as after the first", got, first)
			}
		})
	}
}

func TestJitterIsSpreadEvenlyAroundTheDelay(t *testing.T) {
	b := policy.Backoff{Initial: 10 * time.Second, Factor: 2, Jitter: 0.2}
	for chance, want := range map[float64]time.Duration{0: 9 * time.Second, 0.25: 9500 * time.Millisecond, 0.5: 10 * time.Second, 1: 11 * time.Second} {
		if got := b.After(1, chance); got != want {
			t.Errorf("by a chance of %v the delay is %v, want %v", chance, got, want)
		}
	}
	b.Jitter = 0
	if got := b.After(1, 0.99); got != 10*time.Second {
		t.Errorf("without jitter the delay is %v", got)
	}
}

var durations = rapid.OneOf(
	rapid.Int64Range(0, int64(100*time.Hour)), rapid.Int64Range(0, math.MaxInt64), rapid.Just(int64(math.MaxInt64)),
)

func duration(t *rapid.T, what string) time.Duration {
	return time.Duration(durations.Draw(t, what))
}

// backoffs draws backoffs that Set.Check accepts.
var backoffs = rapid.Custom(func(t *rapid.T) policy.Backoff {
	b := policy.Backoff{
		Kind:    policy.BackoffKind(rapid.Uint8Range(0, 3).Draw(t, "kind")),
		Initial: duration(t, "initial"),
		Factor:  rapid.OneOf(rapid.Float64Range(1, 10), rapid.Float64Range(1, math.MaxFloat64)).Draw(t, "factor"),
		Max:     duration(t, "max"),
		Jitter:  rapid.Float64Range(0, 1).Draw(t, "jitter"),
	}
	for range rapid.IntRange(1, 4).Draw(t, "delays") {
		b.Delays = append(b.Delays, duration(t, "delay"))
	}
	return b
})

func TestADelayIsNeverNegativeNorAboveItsMaximumAndJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := backoffs.Draw(t, "backoff")
		n := rapid.OneOf(rapid.Uint32Range(0, 100), rapid.Uint32()).Draw(t, "attempt")
		chance := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "chance")
		d := b.After(n, chance)
		if d < 0 {
			t.Fatalf("the delay is %v", d)
		}
		if b.Max > 0 && b.Kind != policy.Fixed && float64(d) > float64(b.Max)*(1+b.Jitter/2) {
			t.Fatalf("the delay is %v, the maximum %v", d, b.Max)
		}
		if plain := b.After(n, middle); float64(d) < float64(plain)*(1-b.Jitter/2)-1 || float64(d) > float64(plain)*(1+b.Jitter/2)+1 {
			t.Fatalf("the delay is %v, without jitter %v", d, plain)
		}
	})
}

func TestADelayNeverShrinksWithMoreAttempts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := backoffs.Draw(t, "backoff")
		if b.Kind == policy.Fixed {
			return // the list says so itself
		}
		n := rapid.OneOf(rapid.Uint32Range(0, 100), rapid.Uint32Range(0, math.MaxUint32-1)).Draw(t, "attempt")
		if one, next := b.After(n, middle), b.After(n+1, middle); next < one {
			t.Fatalf("the delay after attempt %d is %v, after the next %v", n, one, next)
		}
	})
}

func TestADelayOfNothingStaysNothingForEver(t *testing.T) {
	b := policy.Backoff{Kind: policy.Exponential, Initial: 0, Factor: 2}
	for _, n := range []uint32{1, 2, 1024, 1025, 1026, math.MaxUint32} {
		if d := b.After(n, middle); d != 0 {
			t.Errorf("after attempt %d the delay is %v", n, d)
		}
	}
}

func TestTheLongestMaximumDoesNotOverflow(t *testing.T) {
	for _, kind := range []policy.BackoffKind{policy.Exponential, policy.Linear, policy.Fixed} {
		b := policy.Backoff{
			Kind: kind, Initial: math.MaxInt64, Factor: 2, Max: math.MaxInt64,
			Delays: []time.Duration{math.MaxInt64}, Jitter: 1,
		}
		for _, chance := range []float64{0, middle, 0.999999} {
			if d := b.After(3, chance); d <= 0 {
				t.Errorf("kind %d: by a chance of %v the delay is %v", kind, chance, d)
			}
		}
	}
}

func TestAFailedAttemptIsFollowedByAnotherAsTheRulesSay(t *testing.T) {
	soon, never := 3*time.Second, policy.Rule{Never: true}
	r := policy.Retry{
		Max:     3,
		Backoff: policy.Backoff{Initial: time.Second, Factor: 2},
		On:      map[string]policy.Rule{"busy": {Delay: &soon}, "bad": never, "plain": {}, "": never},
	}
	const byPolicy = -1
	for name, c := range map[string]struct {
		n       uint32
		verdict task.Verdict
		delay   time.Duration
		again   bool
	}{
		"the first":                            {1, task.Verdict{Delay: byPolicy}, time.Second, true},
		"the second":                           {2, task.Verdict{Delay: byPolicy}, 2 * time.Second, true},
		"the last":                             {3, task.Verdict{Delay: byPolicy}, 0, false},
		"one beyond the last":                  {4, task.Verdict{Delay: byPolicy}, 0, false},
		"the highest number there is":          {math.MaxUint32, task.Verdict{Delay: byPolicy}, 0, false},
		"one that was never counted":           {0, task.Verdict{Delay: byPolicy}, time.Second, true},
		"giving up":                            {1, task.Verdict{Delay: byPolicy, GiveUp: true}, 0, false},
		"giving up comes before a delay":       {1, task.Verdict{Delay: time.Hour, GiveUp: true}, 0, false},
		"a delay of the handler's":             {1, task.Verdict{Delay: time.Hour}, time.Hour, true},
		"a delay of nothing":                   {1, task.Verdict{Delay: 0}, 0, true},
		"a delay of at least less":             {2, task.Verdict{Delay: 0, AtLeast: true}, 2 * time.Second, true},
		"a delay of at least more":             {2, task.Verdict{Delay: time.Hour, AtLeast: true}, time.Hour, true},
		"a class with a delay, and more":       {2, task.Verdict{Delay: time.Hour, AtLeast: true, Class: "busy"}, time.Hour, true},
		"a class with a delay, and less":       {2, task.Verdict{Delay: 1, AtLeast: true, Class: "busy"}, soon, true},
		"giving up comes before at least":      {1, task.Verdict{Delay: time.Hour, AtLeast: true, GiveUp: true}, 0, false},
		"the last, with a delay":               {3, task.Verdict{Delay: time.Hour}, 0, false},
		"a class with a delay":                 {2, task.Verdict{Delay: byPolicy, Class: "busy"}, soon, true},
		"the handler's delay before the class": {2, task.Verdict{Delay: time.Hour, Class: "busy"}, time.Hour, true},
		"the last of a class":                  {3, task.Verdict{Delay: byPolicy, Class: "busy"}, 0, false},
		"a class that is never retried":        {1, task.Verdict{Delay: byPolicy, Class: "bad"}, 0, false},
		"never comes before the handler":       {1, task.Verdict{Delay: time.Hour, Class: "bad"}, 0, false},
		"a class with nothing special":         {2, task.Verdict{Delay: byPolicy, Class: "plain"}, 2 * time.Second, true},
		"a class that has no rule":             {2, task.Verdict{Delay: byPolicy, Class: "odd"}, 2 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			delay, again := r.Next(c.n, c.verdict, middle)
			if delay != c.delay || again != c.again {
				t.Errorf("Next returned %v, %v, want %v, %v", delay, again, c.delay, c.again)
			}
		})
	}
}

func TestTheDefaultRetriesForHoursAndThenStops(t *testing.T) {
	r := policy.DefaultType().Retry
	attempts, total := uint32(1), time.Duration(0)
	for {
		d, again := r.Next(attempts, task.Verdict{Delay: -1}, middle)
		if !again {
			break
		}
		attempts++
		total += d
	}
	if int(attempts) != r.Max || total != 511*time.Second {
		t.Errorf("%d attempts in %v", attempts, total)
	}
}

func TestForeverIsFollowedByAnotherAttemptUnlessTheErrorForbidsIt(t *testing.T) {
	r := policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Initial: time.Second, Factor: 2, Max: time.Hour}, On: map[string]policy.Rule{"bad": {Never: true}}}
	for _, n := range []uint32{0, 1, 10, 1000, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32} {
		if delay, again := r.Next(n, task.Verdict{Delay: -1}, middle); !again || delay < time.Second || n > 100 && delay != time.Hour {
			t.Errorf("after attempt %d: %v, %v", n, delay, again)
		}
		for _, v := range []task.Verdict{{Delay: -1, GiveUp: true}, {Delay: -1, Class: "bad"}, {Next: task.Failed, Delay: -1}} {
			if _, again := r.Next(n, v, middle); again {
				t.Errorf("after attempt %d another one follows %+v", n, v)
			}
		}
		if r.Exhausted(n) {
			t.Errorf("attempt %d of %s is the last one", n, r.Attempts())
		}
	}
	if r.Attempts() != "forever" || (policy.Retry{Max: 7}).Attempts() != "7" {
		t.Errorf("the attempts are %q", r.Attempts())
	}
}

func TestTheLastOfTheFixedDelaysIsRepeatedForEver(t *testing.T) {
	b := policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{time.Second, time.Minute}}
	for _, n := range []uint32{2, 3, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32} {
		if d := b.After(n, middle); d != time.Minute {
			t.Errorf("after attempt %d the delay is %v", n, d)
		}
	}
}
