package node

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/plugins/workers"
	"github.com/taskengine/taskengine/server"
)

// openPools opens the pools of the handlers with tasks that run in workers. Workers reach them when the API is open.
func (s *handlerSet) openPools(c *config.Config, log *slog.Logger) error {
	for name, h := range c.Handlers {
		r := h.Remote
		if r == nil {
			continue
		}
		reconnect := r.Reconnect
		if reconnect == 0 {
			reconnect = -1 // not at all, where 0 would be the default
		}
		pool, err := workers.Open(workers.Config{
			Name: name, Types: typesOf(c, name), Labels: r.Labels, Slots: r.Slots,
			MaxResult:  largest(c, name, func(t config.Type) int { return t.ResultLimit() }),
			MaxPayload: largest(c, name, func(t config.Type) int { return t.MaxPayload }),
			Reconnect:  reconnect, Liveness: r.Liveness, Grace: r.Grace,
			MayRead: r.Documents.MayRead, MayWrite: r.Documents.MayWrite,
			Logger: log, Host: "taskengine " + server.ReadBuild().Version,
		})
		if err != nil {
			return fmt.Errorf("handler %s: %w", name, err)
		}
		s.pools[name] = pool
	}
	return nil
}

// await returns for how long after a start the answers of workers are awaited that had tasks of the process before, by type:
// at least for as long as these workers may begin such tasks.
func (s *handlerSet) await(c *config.Config) map[string]time.Duration {
	times := make(map[string]time.Duration)
	for name := range s.pools {
		for _, typ := range typesOf(c, name) {
			times[typ] = max(times[typ], c.Handlers[name].Remote.Reconnect, s.pools[name].Lease())
		}
	}
	return times
}

// endEarlier gives the engine answers to attempts of a node before.
func endEarlier(e *engine.Engine) workers.Earlier {
	return func(ctx context.Context, answers []workers.EarlierEnd) (int, error) {
		ends := make([]engine.EarlierEnd, len(answers))
		for i, a := range answers {
			ends[i] = engine.EarlierEnd(a)
		}
		return e.EndEarlier(ctx, ends...)
	}
}

// registerWorkers adds the service that workers call to a server.
func (s *handlerSet) registerWorkers(r grpc.ServiceRegistrar, permit, adds workers.Permit, e *engine.Engine) {
	var pools []*workers.Pool
	for _, name := range slices.Sorted(maps.Keys(s.pools)) {
		pools = append(pools, s.pools[name])
	}
	workers.NewService(permit, adds, endEarlier(e), pools...).Register(r)
}

// maxFrame returns how many bytes a frame of a worker may have.
func (s *handlerSet) maxFrame() int {
	most := 0
	for _, p := range s.pools {
		most = max(most, p.MaxFrame())
	}
	return most
}

// closePools ends the connections of workers. When ctx ends, it waits for no worker.
func (s *handlerSet) closePools(ctx context.Context) error { return closeAll(ctx, s.pools) }

// free returns how many more tasks the workers of a handler take now.
func (s *handlerSet) free(handler string) int {
	if p := s.pools[handler]; p != nil {
		return p.Free()
	}
	return 0
}

// Workers implements [server.Workers].
func (s *handlerSet) Workers() (all []server.Worker) {
	for _, name := range slices.Sorted(maps.Keys(s.pools)) {
		all = append(all, workersOf(s.pools[name].Workers())...)
	}
	return all
}

// DrainWorker implements [server.Workers].
func (s *handlerSet) DrainWorker(worker string) (drained []server.Worker) {
	for _, name := range slices.Sorted(maps.Keys(s.pools)) {
		drained = append(drained, workersOf(s.pools[name].Drain(worker))...)
	}
	return drained
}

func workersOf(ws []workers.Worker) []server.Worker {
	out := make([]server.Worker, len(ws))
	for i, w := range ws {
		out[i] = server.Worker{
			ID: w.ID, Name: w.Name, Handler: w.Handler, State: string(w.State), Slots: w.Slots, Running: w.Running,
			ConnectedAt: w.Since, SDK: w.SDK, Version: w.Version, ClockAhead: w.ClockAhead,
		}
	}
	return out
}
