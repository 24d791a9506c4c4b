package postgres

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// outage tells people once when the database can no longer be used, and once when it can.
type outage struct {
	log *slog.Logger

	mu      sync.Mutex
	failing map[string]bool // guarded by mu: what does not work now
	since   time.Time       // guarded by mu
}

func (o *outage) failed(what string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.failing) == 0 {
		o.since = time.Now()
		o.log.Warn("coordination cannot use the database, trying again and again", "while", what, "error", err)
	}
	o.failing[what] = true
}

func (o *outage) worked(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failing[what] {
		return
	}
	delete(o.failing, what)
	if len(o.failing) == 0 {
		o.log.Info("coordination can use the database again", "after", time.Since(o.since).Round(time.Millisecond))
	}
}

// backoff is how long to wait after a failure: from a hundredth of most up to most,
// doubling, less up to a half by chance.
type backoff struct {
	most time.Duration
	last time.Duration // 0: no failure before
}

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, b.most/100), b.most)
	return b.last/2 + rand.N(b.last/2+1)
}

func (b *backoff) reset() { b.last = 0 }

// sql fills in the schema's name.
func (c *Coord) sql(text string) string {
	return strings.ReplaceAll(text, "{schema}", quote(c.schema))
}

// call has a function of the schema answer a request. It is not called off, so that what
// comes after Close comes after it; but it waits no longer than a third of the lease.
func (c *Coord) call(function string, request, answer any) error {
	q, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.lease/3)
	defer cancel()
	var a string
	// As text, since that needs no knowledge of types in any of pgx's modes.
	err = c.pool.QueryRow(ctx, c.sql("SELECT {schema}."+function+"($1::text::jsonb)::text"), string(q)).Scan(&a)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(a), answer)
}

// rest waits until the time is over, the bell rings, or Close; a nil bell never rings.
func (c *Coord) rest(d time.Duration, b bell) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-b:
	case <-c.closed:
	}
}

// newID returns an ID that nobody else has, and that nobody can guess.
func newID() (id task.ID) {
	_, _ = cryptorand.Read(id[:]) // it never fails
	return id
}
