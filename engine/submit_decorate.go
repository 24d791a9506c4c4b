package engine

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
)

// decorated returns what Config.Decorate makes of requests.
func (e *Engine) decorated(ctx context.Context, reqs []Request) ([]Request, error) {
	if e.config.Decorate == nil {
		return reqs, nil
	}
	own := slices.Clone(reqs)
	for i := range own {
		r := &own[i]
		if r.Headers = maps.Clone(r.Headers); r.Headers == nil {
			r.Headers = make(map[string]string)
		}
		if err := decorate(ctx, e.config.Decorate, r); err != nil {
			return nil, fmt.Errorf("%w %d of %d: %w", ErrInvalid, i+1, len(own), err)
		}
		if len(r.Headers) == 0 {
			r.Headers = nil
		}
	}
	return own, nil
}

// decorate turns a panic into an error.
func decorate(ctx context.Context, fn func(context.Context, *Request) error, r *Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("Config.Decorate panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(ctx, r)
}
