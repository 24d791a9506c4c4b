package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"github.com/taskengine/taskengine/bench/result"
)

func beanstalkdSubjects() []subject {
	kinds := []struct {
		short, store, durability string
		durable, main            bool
		args                     []string
	}{
		{"beanstalkd-best", "memory", "none: without -b everything is gone with the process", false, true, nil},
		{"beanstalkd-b", "binlog", "at most 50 ms of changes are lost in a crash of the machine (-b and its default of -f50)", false, false, []string{"-f50"}},
		{"beanstalkd-best-f0", "binlog", "every change is in the binlog and fsynced before it answers (-b -f0)", true, true, []string{"-f0"}},
		{"beanstalkd-f0", "binlog", "every change is in the binlog and fsynced before it answers (-b -f0)", true, false, []string{"-f0"}},
	}
	var out []subject
	for _, k := range kinds {
		about := result.Subject{Name: "beanstalkd", Store: k.store, Durability: k.durability}
		// The server is one thread that serves its connections in turn; the client sends
		// the commands of several goroutines on one connection without waiting between.
		about.Settings = "16 connections to put, shared by all who put; workers with a connection each; unix socket"
		variants := counts("workers", func(ctx context.Context, e env, n int) (peer, error) {
			return openBeanstalkd(ctx, e, k.args, 16, n)
		}, 4, 16, 64, 256)
		if !k.main {
			about.Settings = "one connection to put, shared by all who put, and one that reserves; unix socket"
			variants = only(func(ctx context.Context, e env) (peer, error) { return openBeanstalkd(ctx, e, k.args, 1, 1) })
		}
		out = append(out, subject{
			Subject: about, short: k.short, durable: k.durable, main: k.main, batch: 1, loaders: 256, singles: 512,
			variants: variants,
		})
	}
	return out
}

type beanstalkdPeer struct {
	server   *process
	socket   string
	reserves int
	puts     []*beanstalk.Conn
	turn     atomic.Int64 // which of puts is next
	stats    *beanstalk.Conn
	workers  []*beanstalk.Conn
	working  sync.WaitGroup
	failure  workFailure
}

func openBeanstalkd(ctx context.Context, e env, args []string, puts, reserves int) (peer, error) {
	p := &beanstalkdPeer{socket: filepath.Join(e.dir, "beanstalkd.sock"), reserves: reserves}
	if args != nil {
		args = append([]string{"-b", e.dir}, args...)
	}
	var err error
	if p.server, err = startProcess(e.dir, nil, "beanstalkd", append(args, "-l", "unix:"+p.socket)...); err != nil {
		return nil, err
	}
	if err := p.server.until(ctx, accepts("unix", p.socket)); err != nil {
		return nil, err
	}
	if p.puts, err = p.dial(puts); err == nil {
		p.stats, err = beanstalk.Dial("unix", p.socket)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("beanstalkd: %w", err), p.server.stop())
	}
	return p, nil
}

func (p *beanstalkdPeer) dial(n int) (conns []*beanstalk.Conn, err error) {
	for range n {
		c, err := beanstalk.Dial("unix", p.socket)
		if err != nil {
			return nil, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

func (p *beanstalkdPeer) insert(_ context.Context, payloads ...[]byte) error {
	return each(len(payloads), payloads, func(b []byte) error {
		c := p.puts[int(p.turn.Add(1))%len(p.puts)]
		_, err := c.Put(b, 1, 0, time.Minute)
		return err
	})
}

func (p *beanstalkdPeer) work(_ context.Context, handle func([]byte)) error {
	var err error
	if p.workers, err = p.dial(p.reserves); err != nil {
		return err
	}
	for _, c := range p.workers {
		p.working.Go(func() {
			for {
				id, body, err := c.Reserve(time.Hour)
				if err == nil {
					handle(body)
					err = c.Delete(id)
				}
				if err != nil {
					p.failure.note(fmt.Errorf("beanstalkd: a worker ended: %w", err))
					return
				}
			}
		})
	}
	return nil
}

func (p *beanstalkdPeer) version(context.Context) (queue, store string, err error) {
	s, err := p.stats.Stats()
	if err != nil {
		return "", "", fmt.Errorf("ask beanstalkd for its version: %w", err)
	}
	return strings.Trim(s["version"], `"`), "", nil
}

func (p *beanstalkdPeer) idle(context.Context) (bool, error) {
	if err := p.failure.err(); err != nil {
		return false, err
	}
	s, err := p.stats.Stats()
	if err != nil {
		return false, err
	}
	return s["current-jobs-ready"] == "0" && s["current-jobs-reserved"] == "0" && s["current-jobs-delayed"] == "0" && s["current-jobs-buried"] == "0", nil
}

func (p *beanstalkdPeer) close() error {
	p.failure.close()
	err := p.server.stop()
	p.working.Wait() // their connections are gone
	for _, c := range append(p.workers, append(p.puts, p.stats)...) {
		_ = c.Close() // the server has closed it
	}
	return err
}
