package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/brokers"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/handlers"
	"github.com/taskengine/taskengine/kafka/publish"
	"github.com/taskengine/taskengine/plugins"
	"github.com/taskengine/taskengine/plugins/workers"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/task"
)

// handlerSet has the handlers of a node.
type handlerSet struct {
	byType map[string]task.Handler
	hosts  map[string]*plugins.Host    // of plugins, by the name of the handler
	pools  map[string]*workers.Pool    // of workers, by the name of the handler
	topics map[string]*publish.Handler // of Kafka, by the name of the handler
	turns  *plugins.Turns              // to start, of all plugins
}

// openHandlers starts the handlers that the configuration of a node names. The caller closes the set.
func openHandlers(ctx context.Context, c *config.Config, node string, log *slog.Logger) (*handlerSet, error) {
	set := &handlerSet{
		hosts: make(map[string]*plugins.Host), pools: make(map[string]*workers.Pool), topics: make(map[string]*publish.Handler),
	}
	byName, err := builtIn(c, log)
	if err == nil {
		err = set.openPools(c, log)
	}
	if err == nil {
		err = set.openTopics(c, node)
	}
	if err == nil {
		err = set.startPlugins(ctx, c, log)
	}
	for name, host := range set.hosts {
		byName[name] = host
	}
	for name, pool := range set.pools {
		byName[name] = pool
	}
	for name, topic := range set.topics {
		byName[name] = topic
	}
	if err == nil {
		err = addSplits(c, byName)
	}
	if err == nil {
		set.byType = assign(c, byName)
		return set, nil
	}
	set.Close(ctx)
	return nil, err
}

// builtIn returns the handlers that are not plugins, by name.
func builtIn(c *config.Config, log *slog.Logger) (map[string]task.Handler, error) {
	byName := make(map[string]task.Handler)
	for name, h := range c.Handlers {
		var err error
		switch {
		case h.Exec != nil:
			byName[name], err = handlers.NewExec(execConfig(h.Exec, log.With("handler", name)))
		case h.HTTP != nil:
			byName[name], err = handlers.NewHTTP(httpConfig(h.HTTP, atMostOnce(c, name)))
		}
		if err != nil {
			return nil, fmt.Errorf("handler %s: %w", name, err)
		}
	}
	return byName, nil
}

// atMostOnce reports whether a handler may be given tasks of a type with that delivery.
func atMostOnce(c *config.Config, handler string) bool {
	for _, t := range c.Types {
		_, shared := c.Handlers[t.Handler].Split[handler]
		if t.Delivery == policy.AtMostOnce && (t.Handler == handler || shared) {
			return true
		}
	}
	return false
}

// addSplits adds the handlers that divide tasks among other handlers.
func addSplits(c *config.Config, byName map[string]task.Handler) error {
	splits := make(map[string]task.Handler)
	for name, h := range c.Handlers {
		if h.Split == nil {
			continue
		}
		shares := make(map[string]handlers.Share, len(h.Split))
		for other, weight := range h.Split {
			shares[other] = handlers.Share{Handler: byName[other], Weight: weight}
		}
		split, err := handlers.NewSplit(name, shares)
		if err != nil {
			return fmt.Errorf("handler %s: %w", name, err)
		}
		splits[name] = split
	}
	maps.Copy(byName, splits)
	return nil
}

// assign gives each type its handler.
func assign(c *config.Config, byName map[string]task.Handler) map[string]task.Handler {
	byType := make(map[string]task.Handler, len(c.Types))
	for typ, t := range c.Types {
		if h, ok := byName[t.Handler]; ok {
			byType[typ] = h
		}
	}
	return byType
}

// openTopics opens the handlers that send tasks to topics of Kafka.
func (s *handlerSet) openTopics(c *config.Config, node string) error {
	for name, h := range c.Handlers {
		t := h.Kafka
		if t == nil {
			continue
		}
		settings := publish.Config{
			Name: name, Connection: brokers.Connection(t.Connection, c.Kafka[t.Connection]), Slots: t.Slots, Timeout: t.Timeout,
			Mapping: publish.Mapping{Topic: t.Name, TopicFrom: t.From, Key: t.Key, Value: t.Value, Headers: t.Headers},
		}
		if t.Transactional {
			settings.TransactionalID = "taskengine-" + node + "-" + name
		}
		var err error
		if s.topics[name], err = publish.New(settings); err != nil {
			return fmt.Errorf("handler %s: %w", name, err)
		}
	}
	return nil
}

// Close ends the processes of the plugins and the connections of workers, and waits for records under way to Kafka. When ctx
// ends, it kills the processes and waits for nothing.
func (s *handlerSet) Close(ctx context.Context) error {
	return errors.Join(closeAll(ctx, s.hosts), closeAll(ctx, s.pools), closeAll(ctx, s.topics))
}

// closeAll closes handlers at the same time.
func closeAll[H interface{ Close(context.Context) error }](ctx context.Context, all map[string]H) error {
	var wg sync.WaitGroup
	results := make(chan error, len(all))
	for _, h := range all {
		wg.Go(func() { results <- h.Close(ctx) })
	}
	wg.Wait()
	close(results)
	var failed []error
	for err := range results {
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// Status returns the state of the handlers that are plugins, have workers or send to Kafka.
func (s *handlerSet) Status() []server.HandlerStatus {
	all := make([]server.HandlerStatus, 0, len(s.hosts)+len(s.pools)+len(s.topics))
	for _, name := range slices.Sorted(maps.Keys(s.hosts)) {
		st := s.hosts[name].Status()
		all = append(all, server.HandlerStatus{
			Name: name, Up: st.Up, Detail: cmp.Or(st.Down, st.LastCrash), Starts: st.Starts, Crashes: st.Crashes, Running: len(st.Processes),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(s.pools)) {
		st := s.pools[name].Status()
		all = append(all, server.HandlerStatus{
			Name: name, Up: st.Up, Detail: cmp.Or(st.Down, st.LastLoss), Starts: st.Starts, Crashes: st.Lost, Running: st.Workers,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(s.topics)) {
		down := s.topics[name].Down()
		all = append(all, server.HandlerStatus{Name: name, Up: down == "", Detail: down})
	}
	return all
}

// pluginConfig returns the configuration of the plugin of a handler.
func pluginConfig(c *config.Config, name string, log *slog.Logger) plugins.Config {
	p := c.Handlers[name].Plugin
	// Not nil: the configuration says that there is no variable but these.
	env := []string{}
	for _, key := range slices.Sorted(maps.Keys(p.Env)) {
		env = append(env, key+"="+p.Env[key].Reveal())
	}
	least := p.Processes.Min
	if least == 0 {
		least = -1 // none, where 0 would be the default
	}
	return plugins.Config{
		Name: name, Command: p.Command, Dir: p.Dir, Env: append(env, p.PassEnv...), Slots: p.Slots,
		Types: typesOf(c, name), StartTimeout: p.StartTimeout, Grace: p.Grace, Liveness: p.Liveness, Logger: log, Host: "taskengine " + server.ReadBuild().Version,
		MaxResult:    largest(c, name, func(t config.Type) int { return t.ResultLimit() }),
		MaxPayload:   largest(c, name, func(t config.Type) int { return t.MaxPayload }),
		MinProcesses: least, MaxProcesses: p.Processes.Max, Idle: p.Processes.Idle, PerTask: p.PerTask,
		MaxTasks: p.Replace.Tasks, MaxAge: p.Replace.Age, MaxRSS: int64(p.Replace.RSS), User: p.User, SHA256: p.SHA256,
		Limits:  plugins.Limits{Memory: int64(p.Limits.Memory), CPU: p.Limits.CPU, Processes: p.Limits.Processes},
		MayRead: p.Documents.MayRead, MayWrite: p.Documents.MayWrite,
	}
}

// largest returns the largest of a limit that the types of a handler have, 0 for the default. The
// engine refuses values that are too large for the type of their task.
func largest(c *config.Config, handler string, limit func(config.Type) int) int {
	most := 0
	for _, typ := range typesOf(c, handler) {
		most = max(most, limit(c.Types[typ]))
	}
	return most
}

func execConfig(e *config.Exec, log *slog.Logger) handlers.ExecConfig {
	input := handlers.Stdin
	switch e.Payload {
	case config.PayloadArgs:
		input = handlers.Args
	case config.PayloadEnvelope:
		input = handlers.Envelope
	}
	return handlers.ExecConfig{
		Command: e.Command, Input: input, Dir: e.Dir, Env: reveal(e.Env), PassEnv: e.PassEnv,
		MaxOutput: e.MaxOutput, Grace: e.Grace, User: e.User, Log: log,
		MaxAnswer: e.MaxAnswer, MayAdd: e.MayAdd, MaySignal: e.MaySignal, MayWrite: e.MayWrite,
		Limits: handlers.Limits{Memory: int64(e.Limits.Memory), CPU: e.Limits.CPU, Processes: e.Limits.Processes},
	}
}

func httpConfig(h *config.HTTP, newConnections bool) handlers.HTTPConfig {
	return handlers.HTTPConfig{
		URL: h.URL.Reveal(), Method: h.Method, Headers: reveal(h.Headers),
		Timeout: h.Timeout, MaxResponse: h.MaxResponse, NewConnections: newConnections,
		Envelope: h.Envelope, MayAdd: h.MayAdd, MaySignal: h.MaySignal, MayWrite: h.MayWrite,
	}
}

func reveal(texts map[string]config.Text) map[string]string {
	plain := make(map[string]string, len(texts))
	for k, t := range texts {
		plain[k] = t.Reveal()
	}
	return plain
}
