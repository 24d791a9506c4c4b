package coordtest

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/coord"
)

// RunRates runs the suite of [coord.Rates]. The coordinator's clock must not be set during it.
func RunRates(t *testing.T, b Backend[coord.Rates]) {
	b.run(t, "a burst is granted at once, and then no more", ratesBurst)
	b.run(t, "tokens come back by the interval", ratesRefill)
	b.run(t, "nodes share a rate, and a new node does not refill it", ratesShared)
	b.run(t, "names are independent, and answers in the order of the draws", ratesNames)
	b.run(t, "several draws of a name in one call share its tokens", ratesRepeated)
	b.run(t, "the latest interval and burst apply", ratesChanged)
	b.run(t, "what is no name gets nothing and harms no other draw", ratesNoName)
	b.run(t, "numbers out of range are brought into it", ratesNumbers)
	b.run(t, "two thousand rates are drawn from in one call", ratesMany)
	b.run(t, "a context that has ended draws nothing", ratesEnded)
	b.run(t, "over any time no more are granted than Burst and one for each Interval", ratesWindow)
}

type rates = env[coord.Rates]

// slow is an interval during which no test ends.
const slow = 1000 * time.Hour

// draw draws once.
func draw(e *rates, node coord.Rates, draws ...coord.Draw) []coord.Drawn {
	e.Helper()
	drawn, err := node.Draw(e.Context(), draws...)
	if err != nil {
		e.Fatal(err)
	}
	if len(drawn) != len(draws) {
		e.Fatalf("%d draws have %d answers", len(draws), len(drawn))
	}
	for i, d := range drawn {
		if d.Tokens < 0 || d.Tokens > max(0, draws[i].Tokens) || (d.Next == 0) != (d.Tokens == max(0, draws[i].Tokens)) {
			e.Errorf("%+v is answered by %+v", draws[i], d)
		}
	}
	return drawn
}

// tokens draws from one rate and returns how many it got.
func tokens(e *rates, node coord.Rates, name string, interval time.Duration, burst, tokens int) int {
	e.Helper()
	return draw(e, node, coord.Draw{Name: name, Interval: interval, Burst: burst, Tokens: tokens})[0].Tokens
}

func ratesBurst(e *rates) {
	node := e.connect()
	for i, want := range []int{3, 2, 0} {
		if got := tokens(e, node, "rate", slow, 5, 3); got != want {
			e.Errorf("draw %d of 3 tokens of a burst of 5 got %d, want %d", i+1, got, want)
		}
	}
	got := draw(e, node, coord.Draw{Name: "rate", Interval: slow, Burst: 5, Tokens: 1})[0]
	if got.Next > slow || got.Next < slow-time.Hour {
		e.Errorf("the next token is there in %v, want about %v", got.Next, slow)
	}
	if got := draw(e, node, coord.Draw{Name: "other", Interval: slow, Burst: 2, Tokens: 9})[0]; got.Tokens != 2 {
		e.Errorf("of a burst of 2, %+v were drawn", got)
	}
}

func ratesRefill(e *rates) {
	node := e.connect()
	const interval = 20 * time.Millisecond
	if got := tokens(e, node, "rate", interval, 2, 2); got != 2 {
		e.Fatalf("%d tokens were drawn, want 2", got)
	}
	for got := 0; got < 5; {
		d := draw(e, node, coord.Draw{Name: "rate", Interval: interval, Burst: 2, Tokens: 1})[0]
		if d.Next > interval {
			e.Errorf("the next token is there in %v, and the interval is %v", d.Next, interval)
		}
		got += d.Tokens
		if d.Next > 0 {
			time.Sleep(d.Next) // a token is certain to be there after it
			if tokens(e, node, "rate", interval, 2, 1) != 1 {
				e.Errorf("after %v there is no token", d.Next)
			}
			got++
		}
	}
}

func ratesShared(e *rates) {
	a, b := e.connect(), e.connect()
	if got := tokens(e, a, "rate", slow, 10, 4) + tokens(e, b, "rate", slow, 10, 4) + tokens(e, a, "rate", slow, 10, 4); got != 10 {
		e.Errorf("of a burst of 10, two nodes got %d", got)
	}
	if got := tokens(e, e.connect(), "rate", slow, 10, 1); got != 0 {
		e.Errorf("of a rate that is used up, a new node got %d", got)
	}
}

func ratesNames(e *rates) {
	node := e.connect()
	all := []coord.Draw{}
	for _, name := range []string{"c", "", "a", "b", "ä'\"\\\n{}"} {
		all = append(all, coord.Draw{Name: name, Interval: slow, Burst: len(all) + 1, Tokens: 9})
	}
	for i, d := range draw(e, node, all...) {
		if d.Tokens != i+1 {
			e.Errorf("%+v is answered by %+v", all[i], d)
		}
	}
	if got := draw(e, node); len(got) != 0 {
		e.Errorf("no draws have the answers %v", got)
	}
}

func ratesRepeated(e *rates) {
	node := e.connect()
	d := coord.Draw{Name: "rate", Interval: slow, Burst: 5, Tokens: 2}
	other := coord.Draw{Name: "other", Interval: slow, Burst: 1, Tokens: 1}
	latest := d
	latest.Burst = 3
	got := draw(e, node, d, other, d, latest)
	for i, want := range []int{2, 1, 1, 0} {
		if got[i].Tokens != want {
			e.Errorf("draw %d got %+v, want %d", i, got[i], want)
		}
	}
}

func ratesChanged(e *rates) {
	node := e.connect()
	if got := tokens(e, node, "rate", slow, 100, 100); got != 100 {
		e.Fatalf("%d tokens were drawn, want 100", got)
	}
	if got := draw(e, node, coord.Draw{Name: "rate", Interval: time.Hour, Burst: 1, Tokens: 1})[0]; got.Tokens != 0 || got.Next > time.Hour {
		e.Errorf("after the rate was raised to one an hour, the answer is %+v", got)
	}
	e.eventually("tokens of a rate that was raised", func() bool { return tokens(e, node, "rate", time.Millisecond, 1, 1) == 1 })
	tokens(e, node, "wider", slow, 1, 1)
	if got := tokens(e, node, "wider", slow, 3, 9); got != 2 {
		e.Errorf("after the burst was raised from 1 to 3, there are %d more, want 2", got)
	}
}

func ratesNoName(e *rates) {
	good := coord.Draw{Name: "good", Interval: slow, Burst: 1, Tokens: 1}
	draws := []coord.Draw{good, good, good, good}
	draws[1].Name, draws[2].Name, draws[3].Name = "a\x00b", "a\xffb", "better"
	got := draw(e, e.connect(), draws...)
	for i, want := range []int{1, 0, 0, 1} {
		if got[i].Tokens != want {
			e.Errorf("%+v is answered by %+v", draws[i], got[i])
		}
	}
}

func ratesNumbers(e *rates) {
	node := e.connect()
	for i, c := range []struct {
		draw coord.Draw
		want int
	}{
		{coord.Draw{Interval: slow, Burst: 0, Tokens: 2}, 1},
		{coord.Draw{Interval: slow, Burst: -5, Tokens: 2}, 1},
		{coord.Draw{Interval: slow, Burst: 2, Tokens: 0}, 0},
		{coord.Draw{Interval: slow, Burst: 2, Tokens: -3}, 0},
		{coord.Draw{Interval: 0, Burst: 1000, Tokens: 1000}, 1000},
		{coord.Draw{Interval: -time.Hour, Burst: 1000, Tokens: 1000}, 1000},
		{coord.Draw{Interval: math.MaxInt64, Burst: 1, Tokens: 2}, 1},
		{coord.Draw{Interval: math.MaxInt64, Burst: math.MaxInt, Tokens: 1}, 1},
		{coord.Draw{Interval: 1, Burst: math.MaxInt, Tokens: math.MaxInt32}, math.MaxInt32},
	} {
		c.draw.Name = fmt.Sprint("rate ", i)
		if got := draw(e, node, c.draw)[0]; got.Tokens != c.want {
			e.Errorf("%+v is answered by %+v, want %d", c.draw, got, c.want)
		}
		again := c.draw
		again.Tokens = math.MaxInt
		draw(e, node, again)
	}
}

func ratesMany(e *rates) {
	nodes := []coord.Rates{e.connect(), e.connect()}
	var draws []coord.Draw
	for i := range 2000 {
		draws = append(draws, coord.Draw{Name: fmt.Sprint("rate/", i), Interval: slow, Burst: 3, Tokens: 2})
	}
	for i, want := range []int{2, 1, 0} {
		for j, d := range draw(e, nodes[i%2], draws...) {
			if d.Tokens != want {
				e.Fatalf("draw %d of rate %d got %d, want %d", i+1, j, d.Tokens, want)
			}
		}
	}
}

func ratesEnded(e *rates) {
	node := e.connect()
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	if _, err := node.Draw(ctx, coord.Draw{Name: "rate", Interval: slow, Burst: 1, Tokens: 1}); err == nil {
		e.Error("Draw returned no error")
	}
	if got := tokens(e, node, "rate", slow, 1, 1); got != 1 {
		e.Errorf("%d tokens are left, want 1", got)
	}
}

// grant is some tokens that were granted between two times.
type grant struct {
	after, before time.Duration
	tokens        int
}

// drawPatiently repeats a draw that fails, since another node may hold a lock for longer than the patience for it. A draw that fails grants nothing.
func drawPatiently(ctx context.Context, node coord.Rates, d coord.Draw) (drawn []coord.Drawn, err error) {
	for range 10 {
		if drawn, err = node.Draw(ctx, d); err == nil {
			break
		}
	}
	return drawn, err
}

// ratesWindow draws at random from several nodes. The tokens of draws that lie within some time were
// granted in that time, by any clock of the same speed.
func ratesWindow(e *rates) {
	nodes := []coord.Rates{e.connect(), e.connect(), e.connect()}
	start, round := time.Now(), 0
	e.random(func(t *rapid.T) {
		round++
		interval := time.Duration(rapid.IntRange(50, 2000).Draw(t, "microseconds")) * time.Microsecond
		burst := rapid.IntRange(1, 20).Draw(t, "burst")
		random := rapid.SliceOfN(rapid.IntRange(1, 10), 1, 20).Draw(t, "tokens")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 3000), len(random), len(random)).Draw(t, "pauses")
		var mu sync.Mutex
		var all []grant
		var wg sync.WaitGroup
		for _, node := range nodes {
			wg.Go(func() {
				for i, n := range random {
					after := time.Since(start)
					drawn, err := drawPatiently(e.Context(), node, coord.Draw{Name: fmt.Sprint("rate ", round), Interval: interval, Burst: burst, Tokens: n})
					if err != nil {
						e.Error(err)
						return
					}
					mu.Lock()
					all = append(all, grant{after, time.Since(start), drawn[0].Tokens})
					mu.Unlock()
					time.Sleep(time.Duration(pauses[i]) * time.Microsecond)
				}
			})
		}
		wg.Wait()
		// Tokens that were drawn ahead are there later for a node by the time that the answer took, and is taken by a later call.
		longest := time.Duration(0)
		for _, g := range all {
			longest = max(longest, g.before-g.after)
		}
		for i := range all {
			all[i].after -= longest
		}
		if got, most := crowded(all, interval, burst); got > most {
			t.Fatalf("with an interval of %v and a burst of %d, %d tokens were granted in a time for %d", interval, burst, got, most)
		}
	})
}

// crowded returns the number of tokens that were granted in the time with the largest excess,
// and the number that is allowed in that time.
func crowded(all []grant, interval time.Duration, burst int) (got, most int) {
	for _, from := range all {
		for _, to := range all {
			if to.before < from.before {
				continue
			}
			sum := 0
			for _, g := range all {
				if g.after >= from.after && g.before <= to.before {
					sum += g.tokens
				}
			}
			allowed := burst + int((to.before-from.after+time.Millisecond)/interval) + 1 // the clocks may differ a little
			if sum-allowed > got-most {
				got, most = sum, allowed
			}
		}
	}
	return got, most
}
