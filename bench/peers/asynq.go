package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/hibiken/asynq"

	"github.com/taskengine/taskengine/bench/result"
)

func asynqSubjects() []subject {
	var out []subject
	for _, always := range []bool{false, true} {
		about := result.Subject{Name: "asynq", Store: "Redis", Durability: redisDefault}
		suffix := ""
		if always {
			about.Durability, suffix = redisAlways, "-always"
		}
		best, usual := about, about
		// A server takes tasks one after the other, however many workers it has, so it is
		// scaled by more servers, as its documentation says. There is no insert of many.
		best.Settings = fmt.Sprintf("up to %d servers that share the workers, TaskCheckInterval 2ms, 256 connections of the client, unix socket", asynqServers)
		usual.Settings = "defaults: 1 server, as many workers as cores, TaskCheckInterval 1s; unix socket"
		out = append(out,
			subject{
				Subject: best, short: "asynq-best" + suffix, durable: always, main: true, batch: 1, loaders: 256, singles: 512,
				variants: counts("workers", func(ctx context.Context, e env, n int) (peer, error) {
					servers := min(n, asynqServers)
					return openAsynq(ctx, e, always, servers, 256, asynq.Config{Concurrency: n / servers, TaskCheckInterval: 2 * time.Millisecond})
				}, 4, 16, 64, 256, 512),
			},
			subject{
				Subject: usual, short: "asynq" + suffix, durable: always, batch: 1, loaders: 256, singles: 512,
				variants: only(func(ctx context.Context, e env) (peer, error) {
					return openAsynq(ctx, e, always, 1, 0, asynq.Config{})
				}),
			})
	}
	return out
}

const asynqServers = 8

type asynqPeer struct {
	redis     *process
	at        asynq.RedisClientOpt
	config    asynq.Config
	wanted    int
	client    *asynq.Client
	inspector *asynq.Inspector
	servers   []*asynq.Server
}

func openAsynq(ctx context.Context, e env, always bool, servers, connections int, c asynq.Config) (peer, error) {
	server, socket, err := startRedis(ctx, e.dir, always)
	if err != nil {
		return nil, err
	}
	server.bye = syscall.SIGKILL // with a gentler signal it would write a snapshot, which is not needed
	p := &asynqPeer{redis: server, config: c, wanted: servers, at: asynq.RedisClientOpt{Network: "unix", Addr: socket, PoolSize: connections}}
	p.config.LogLevel = asynq.FatalLevel
	p.client, p.inspector = asynq.NewClient(p.at), asynq.NewInspector(p.at)
	return p, nil
}

func (p *asynqPeer) insert(ctx context.Context, payloads ...[]byte) error {
	return each(len(payloads), payloads, func(b []byte) error {
		_, err := p.client.EnqueueContext(ctx, asynq.NewTask("noop", b))
		return err
	})
}

func (p *asynqPeer) work(_ context.Context, handle func([]byte)) error {
	for range p.wanted {
		s := asynq.NewServer(p.at, p.config)
		if err := s.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
			handle(t.Payload())
			return nil
		})); err != nil {
			return err
		}
		p.servers = append(p.servers, s)
	}
	return nil
}

func (p *asynqPeer) version(ctx context.Context) (queue, store string, err error) {
	store, err = redisVersion(ctx, p.at.Addr)
	return moduleVersion("github.com/hibiken/asynq"), store, err
}

func (p *asynqPeer) idle(context.Context) (bool, error) {
	info, err := p.inspector.GetQueueInfo("default")
	if err != nil {
		return false, err
	}
	return info.Size == 0, nil
}

func (p *asynqPeer) close() error {
	for _, s := range p.servers {
		s.Shutdown()
	}
	return errors.Join(p.client.Close(), p.inspector.Close(), p.redis.stop())
}
