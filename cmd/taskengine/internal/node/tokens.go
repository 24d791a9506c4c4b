package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/server/tokens"
)

// clientTokens are the tokens of clients: of a file and, once the engine is open, of the cluster. nil: clients need none.
type clientTokens struct {
	file *access.Watched
	kept atomic.Pointer[tokens.Kept] // set by openKept, once; nil before
}

// valid returns a function for the tokens that are valid; nil if clients need none.
func (t *clientTokens) valid() func() *access.Tokens {
	if t == nil {
		return nil
	}
	return func() *access.Tokens {
		if k := t.kept.Load(); k != nil {
			return k.Tokens()
		}
		return t.file.Tokens()
	}
}

// keeper returns the tokens of the cluster; nil if it keeps none.
func (t *clientTokens) keeper() *tokens.Kept {
	if t == nil {
		return nil
	}
	return t.kept.Load()
}

// openTokens reads the tokens of the file, now and after each change.
func (p *parts) openTokens() error {
	path := p.node.Config.API.Tokens
	if path == "" {
		return nil
	}
	file, err := access.Open(path, p.node.Log)
	if err != nil {
		return fmt.Errorf("api.tokens: %w; taskengine token create makes such a file", err)
	}
	p.tokens = &clientTokens{file: file}
	p.follow("the file of tokens", file.Watch)
	return nil
}

// openKept reads the tokens of the cluster, now and after each change.
func (p *parts) openKept(ctx context.Context) error {
	if p.tokens == nil {
		return nil
	}
	conf := tokens.Config{Settings: p.engine.Settings(), File: p.tokens.file.Tokens, Now: p.engine.Now, Log: p.node.Log}
	return database.Retry(ctx, p.node.Config.Storage, p.node.Log, func(ctx context.Context) error {
		kept, err := tokens.Open(ctx, conf)
		if err != nil {
			return err
		}
		p.tokens.kept.Store(kept)
		p.node.metrics.WatchTokens(kept.Age)
		p.follow("the tokens of the cluster", kept.Watch)
		return nil
	})
}

// follow runs a function until the part is closed.
func (p *parts) follow(name string, watch func(context.Context)) {
	watching, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { watch(watching) })
	p.add(name, func(context.Context) error {
		stop()
		all.Wait()
		return nil
	})
}
