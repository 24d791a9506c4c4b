package dashboard

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/internal/access"
)

const (
	// leastFresh is for how long an answer is shared at least.
	leastFresh = time.Second
	// mostFresh is for how long it is shared at most.
	mostFresh = 5 * time.Minute
	// costFactor times the time that an answer took is for how long it is shared: so that pages which are refreshed take a small
	// part of a core, however much the node has to read.
	costFactor = 50
	// maxCached is how many answers are kept.
	maxCached = 256
)

// cache shares answers of the API between pages, which ask for the same again and again.
type cache struct {
	mu  sync.Mutex
	all map[cacheKey]*cached // guarded by mu
}

// cacheKey is a question and the rights by which the API answers it. Persons with other rights do not get the answer.
type cacheKey struct {
	rights access.Hash
	what   string
}

// cached is an answer, or a request that is under way.
type cached struct {
	by    access.Hash   // of the token or session that asked
	ready chan struct{} // closed when the fields below are set

	value any
	err   error
	at    time.Time // when it was answered
	until time.Time // until when it is shared
}

// init makes the cache empty.
func (c *cache) init() { c.all = make(map[cacheKey]*cached) }

// forget has every answer asked for again: something was changed.
func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.init()
}

// answer is an answer of the API with its time.
type answer[T any] struct {
	Value T
	At    time.Time // when the API was asked; zero: there is no answer yet
}

// shared returns the answer of ask, or an earlier one. If that takes longer than patience, it returns the one from before, or none,
// and a later call gets the answer.
func shared[T any](v *view, what string, patience time.Duration, ask func(ctx context.Context) (T, error)) (answer[T], error) {
	c, key := &v.d.cache, cacheKey{v.rights(), what}
	c.mu.Lock()
	before := c.all[key]
	one := before
	if before == nil || before.isOver(v.now) {
		one = &cached{by: access.HashOf(v.secret), ready: make(chan struct{})}
		c.put(v.now, key, one)
		ctx := context.WithoutCancel(v.ctx)
		go one.fill(ctx, func(ctx context.Context) (any, error) { return ask(ctx) })
	}
	c.mu.Unlock()
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case <-one.ready:
	case <-wait.C:
		v.isSharedUntil(v.now.Add(leastFresh))
		if one = before; one == nil || !one.isReady() {
			return answer[T]{}, nil
		}
	case <-v.ctx.Done():
		return answer[T]{}, v.ctx.Err()
	}
	v.isSharedUntil(one.until)
	if one.err == nil {
		value, _ := one.value.(T)
		return answer[T]{value, one.at}, nil
	}
	v.isSharedUntil(time.Time{})
	if one.by == access.HashOf(v.secret) {
		return answer[T]{At: one.at}, one.err
	}
	value, err := ask(v.ctx) // the error may be about the token or the session of another person
	return answer[T]{value, v.now}, err
}

// rights returns a hash of the roles of the person and of the types that they are for. The API answers by nothing else.
func (v *view) rights() access.Hash {
	if v.token == nil {
		return access.HashOf("")
	}
	var b strings.Builder
	for _, role := range slices.Sorted(slices.Values(v.token.Roles)) {
		b.WriteString(string(role) + "\x00")
	}
	for _, typ := range slices.Sorted(slices.Values(v.token.Types)) {
		b.WriteString("\x00" + typ)
	}
	return access.HashOf(b.String())
}

// isSharedUntil limits the time for which the page is shared.
func (v *view) isSharedUntil(at time.Time) {
	if at.Before(v.until) {
		v.until = at
	}
}

// fill asks.
func (one *cached) fill(ctx context.Context, ask func(ctx context.Context) (any, error)) {
	defer close(one.ready)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	one.at = time.Now()
	one.value, one.err = ask(ctx)
	now := time.Now()
	one.until = now.Add(min(max(leastFresh, costFactor*now.Sub(one.at)), mostFresh))
	if one.err != nil {
		one.until = now.Add(leastFresh)
	}
}

func (one *cached) isReady() bool {
	select {
	case <-one.ready:
		return true
	default:
		return false
	}
}

// isOver reports whether an answer is too old.
func (one *cached) isOver(now time.Time) bool { return one.isReady() && now.After(one.until) }

// put adds an answer, and removes old ones if there is no room. The caller has locked c.mu.
func (c *cache) put(now time.Time, key cacheKey, one *cached) {
	c.makeRoom(now)
	c.all[key] = one
}

func (c *cache) makeRoom(now time.Time) {
	for key, one := range c.all {
		if len(c.all) < maxCached {
			return
		}
		if one.isOver(now) {
			delete(c.all, key)
		}
	}
	for key := range c.all {
		if len(c.all) < maxCached {
			return
		}
		delete(c.all, key)
	}
}
