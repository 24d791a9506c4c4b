package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/limits"
)

// sweepPause is how long a process that draws waits at least before it removes full buckets again.
const sweepPause = time.Minute

// drawEntry and drawnEntry are what coord_draw in limits.sql describes.
type drawEntry struct {
	Name   string `json:"name"`
	Step   int64  `json:"step"`
	Slack  int64  `json:"slack"`
	Tokens int64  `json:"tokens"`
}

type drawnEntry struct {
	Name   string `json:"name"`
	Tokens int64  `json:"tokens"`
	Next   int64  `json:"next"`
}

// Draw implements [coord.Rates]. All draws of a call are one statement. While the database cannot be
// used, Draw returns the error at once, and it waits for an answer for at most a lease.
func (c *Coord) Draw(ctx context.Context, draws ...coord.Draw) ([]coord.Drawn, error) {
	if c.isClosed() {
		return nil, coord.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	drawn := make([]coord.Drawn, len(draws))
	wanted := sumDraws(draws, drawn)
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
		if g := got[keyOf(d.Name)]; g != nil && d.Tokens > 0 {
			n := min(int64(d.Tokens), g.Tokens)
			g.Tokens -= n
			if drawn[i].Tokens = int(n); drawn[i].Tokens < d.Tokens {
				drawn[i].Next = max(time.Duration(g.Next), 1)
			}
		}
	}
	c.sweepRates(ctx)
	return drawn, nil
}

// sumDraws returns one entry for each rate of the draws, and answers those whose names are none.
func sumDraws(draws []coord.Draw, drawn []coord.Drawn) []drawEntry {
	wanted := make([]drawEntry, 0, len(draws))
	at := make(map[string]int, len(draws))
	for i, d := range draws {
		if d.Tokens <= 0 {
			continue
		}
		if !limits.IsName(d.Name) {
			drawn[i].Next = limits.Never
			continue
		}
		key := keyOf(d.Name)
		n, ok := at[key]
		if !ok {
			n = len(wanted)
			at[key] = n
			wanted = append(wanted, drawEntry{Name: key})
		}
		w := &wanted[n]
		w.Step, w.Slack = limits.Bucket(d.Interval, d.Burst)
		w.Tokens += min(int64(d.Tokens), limits.MaxTokens-w.Tokens)
	}
	return wanted
}

func (c *Coord) draw(ctx context.Context, wanted []drawEntry) (map[string]*drawnEntry, error) {
	q, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	var text string
	err = c.pool.QueryRow(ctx, c.sql("SELECT {schema}.coord_draw($1::text::jsonb)::text"), string(q)).Scan(&text)
	if err != nil {
		return nil, err
	}
	var answer []drawnEntry
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, err
	}
	got := make(map[string]*drawnEntry, len(answer))
	for i := range answer {
		got[answer[i].Name] = &answer[i]
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
	_, err := c.pool.Exec(ctx, c.sql(`DELETE FROM {schema}.rate WHERE name IN (
		SELECT name FROM {schema}.rate WHERE due < {schema}.coord_nanos() FOR UPDATE SKIP LOCKED)`))
	if err != nil {
		c.log.Debug("rates that are not used stay in the database", "error", err) // until the next time
	}
}
