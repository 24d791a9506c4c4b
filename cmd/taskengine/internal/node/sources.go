package node

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/brokers"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/sources"
	"github.com/taskengine/taskengine/kafka/consume"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// openSources makes the sources of the configuration, which read after the engine has opened and applied them.
func (p *parts) openSources() (err error) {
	c := consume.Config{Store: p.store, Log: p.node.Log}
	for _, one := range brokers.Sources(p.node.Config) {
		c.Sources = append(c.Sources, consume.Source{Definition: one.Definition, Connection: one.Connection})
	}
	if p.sources, err = consume.New(c); err != nil {
		return err
	}
	p.add("the sources", p.sources.Close)
	p.slices, err = slicer.New(slicer.Config{Log: p.node.Log, Sources: p.node.Config.TimeSlices(), MayHold: func(source, platform string) bool {
		return p.node.Config.MayFetch(source, platform, p.node.Name)
	}})
	return err
}

// addSources adds the policies and the handlers of the sources to the ones of an engine.
func (p *parts) addSources(types map[string]policy.Type, handlers map[string]task.Handler) {
	maps.Copy(types, p.sources.Policies())
	maps.Copy(handlers, p.sources.Handlers())
	maps.Copy(types, p.slices.Policies())
	maps.Copy(handlers, p.slices.Handlers())
	for _, d := range p.node.Config.TimeSlices() {
		if h, ok := handlers[d.Type]; ok { // otherwise other nodes fetch
			handlers[d.Type] = slicer.Handler(h)
		}
	}
}

// shownSources returns the sources for the API, metrics and alerts.
func (p *parts) shownSources() *sources.Sources { return sources.Of(p.sources, p.engine) }

// applySources begins to read and to poll.
func (p *parts) applySources(ctx context.Context) error {
	return database.Retry(ctx, p.node.Config.Storage, p.node.Log, func(ctx context.Context) error {
		return errors.Join(p.sources.Apply(ctx, p.engine), p.slices.Apply(ctx, p.engine))
	})
}

// watchSlices begins to watch the clock for the sources of time slices, and to share their platforms with nodes that have stores of their
// own.
func (p *parts) watchSlices() {
	if len(p.slices.Names()) == 0 {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { p.slices.Watch(ctx, p.engine) })
	watching.Go(func() { p.slices.Hold(ctx, p.engine) })
	p.add("the sources of time slices", func(context.Context) error {
		stop()
		watching.Wait()
		return nil
	})
}
