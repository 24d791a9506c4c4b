package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/limits"
)

// sweepPause is how long a process that draws waits at least before it removes full buckets again.
const sweepPause = time.Minute

// drawEntry and drawnEntry are described at coord_draw in functions.sql.
type drawEntry struct {
	Name   string `json:"name"`
	Step   int64  `json:"step"`
	Slack  int64  `json:"slack"`
	Tokens int64  `json:"tokens"`
	Lead   int64  `json:"lead"`
}

type drawnEntry struct {
	Name   string `json:"name"`
	Tokens int64  `json:"tokens"`
	Ahead  int64  `json:"ahead"`
	Wait   int64  `json:"wait"`
	Next   int64  `json:"next"`

	step int64
}

// drawing is the knowledge of a process of its draws of rates. Times count from the making of the Coord.
type drawing struct {
	ahead map[string]limits.Ahead // tokens that were drawn before they are there, by key
	again map[string]bool         // keys of rates of which the latest draw got nothing, also not ahead
}

// manyRates is the number of rates with tokens drawn ahead that a process notes, unless all of these can still be used.
const manyRates = 10_000

// Draw implements [coord.Rates]. All draws of a call are one statement. A process that gets no token draws one ahead, if
// that is there soon, and needs no statement when it is. While the database cannot be used, Draw returns the error at once,
// and it waits for an answer for at most a lease.
func (c *Coord) Draw(ctx context.Context, draws ...coord.Draw) ([]coord.Drawn, error) {
	if c.isClosed() {
		return nil, coord.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	drawn := make([]coord.Drawn, len(draws))
	rest := make([]int64, len(draws)) // tokens that are still to be drawn
	wanted := c.sumDraws(draws, drawn, rest)
	if len(wanted) == 0 {
		return drawn, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.lease)
	defer cancel()
	got, err := c.draw(ctx, wanted)
	if err != nil {
		return nil, fmt.Errorf("draw from %d rates: %w", len(wanted), err)
	}
	for i, d := range draws {
		g := got[keyOf(d.Name)]
		if g == nil || rest[i] == 0 {
			continue
		}
		n := min(rest[i], g.Tokens)
		g.Tokens -= n
		drawn[i].Tokens += int(n)
		switch {
		case drawn[i].Tokens == d.Tokens:
		case g.Ahead > 0:
			drawn[i].Next = time.Duration(max(1, g.Wait))
		case drawn[i].Tokens > 0:
			drawn[i].Next = time.Duration(max(1, g.Next))
		default:
			drawn[i].Next = time.Duration(limits.Again(g.Next, g.step))
		}
	}
	c.sweepRates(ctx)
	return drawn, nil
}

// sumDraws returns one entry for each rate of the draws that tokens drawn ahead do not answer, and answers the draws with
// invalid names.
func (c *Coord) sumDraws(draws []coord.Draw, drawn []coord.Drawn, rest []int64) []drawEntry {
	latest := make(map[string]coord.Draw, len(draws))
	for _, d := range draws {
		latest[d.Name] = d
	}
	wanted := make([]drawEntry, 0, len(draws))
	at := make(map[string]int, len(draws))
	now := int64(time.Since(c.made))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, d := range draws {
		if d.Tokens <= 0 {
			continue
		}
		if !limits.IsName(d.Name) {
			drawn[i].Next = limits.Never
			continue
		}
		key := keyOf(d.Name)
		step, slack := limits.Bucket(latest[d.Name].Interval, latest[d.Name].Burst)
		a := c.drawing.ahead[key]
		had, early := a.Take(now, step, slack, int64(d.Tokens))
		c.keepAhead(key, a)
		drawn[i].Tokens = int(had)
		if early {
			drawn[i].Next = time.Duration(a.Wait(now))
			continue
		}
		if rest[i] = int64(d.Tokens) - had; rest[i] == 0 {
			continue
		}
		n, ok := at[key]
		if !ok {
			n = len(wanted)
			at[key] = n
			wanted = append(wanted, drawEntry{Name: key, Step: step, Slack: slack, Lead: limits.Earliest(step, c.drawing.again[key])})
		}
		w := &wanted[n]
		w.Tokens += min(rest[i], limits.MaxTokens-w.Tokens)
	}
	return wanted
}

// keepAhead notes the tokens that are drawn ahead of a rate. It is called with mu held.
func (c *Coord) keepAhead(key string, a limits.Ahead) {
	if a == (limits.Ahead{}) {
		delete(c.drawing.ahead, key)
	} else {
		c.drawing.ahead[key] = a
	}
}

func (c *Coord) draw(ctx context.Context, wanted []drawEntry) (map[string]*drawnEntry, error) {
	q, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	done, err := c.beside(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var text string
	err = c.pool.QueryRow(ctx, c.calling("coord_draw"), string(q), c.lockPatience()).Scan(nil, &text)
	if err != nil {
		return nil, c.explain(err)
	}
	var answer []drawnEntry
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, err
	}
	now := int64(time.Since(c.made))
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.drawing.ahead)+len(c.drawing.again) > manyRates {
		maps.DeleteFunc(c.drawing.ahead, func(_ string, a limits.Ahead) bool { return a.IsOver(now) })
		clear(c.drawing.again)
	}
	got := make(map[string]*drawnEntry, len(answer))
	for i := range answer {
		got[answer[i].Name] = &answer[i]
	}
	for _, w := range wanted {
		g := got[w.Name]
		if g == nil {
			continue
		}
		g.step = w.Step
		delete(c.drawing.again, w.Name)
		switch {
		case g.Ahead > 0:
			c.drawing.ahead[w.Name] = limits.Rest(now+g.Wait, w.Step, w.Slack, g.Ahead, g.Ahead)
		case g.Tokens == 0:
			c.drawing.again[w.Name] = true
		}
	}
	return got, nil
}

// sweepRates removes full buckets if that was not done lately. Such a rate is as one that was never used.
// It waits for no draw that is under way.
func (c *Coord) sweepRates(ctx context.Context) {
	c.mu.Lock()
	due := time.Since(c.swept) >= sweepPause
	if due {
		c.swept = time.Now()
	}
	c.mu.Unlock()
	if !due {
		return
	}
	err := c.within(ctx, c.lease/lockShare, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, c.sql(`DELETE FROM {schema}.rate WHERE name IN (
			SELECT name FROM {schema}.rate WHERE due < {schema}.coord_nanos() FOR UPDATE SKIP LOCKED)`))
		return err
	})
	if err != nil {
		c.log.Debug("rates that are not used stay in the database", "error", err) // until the next time
	}
}
