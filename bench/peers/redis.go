package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	redisDefault = "none: Redis's default is to write a snapshot after 60 s (if 10,000 keys changed) to an hour; a crash of the machine loses what came since"
	redisAlways  = "every change is in the append-only file and fsynced before Redis answers (appendfsync always, grouped by what comes in at once)"
)

// redisVersion asks the server at a socket.
func redisVersion(ctx context.Context, socket string) (string, error) {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer c.Close()
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("ask Redis for its version: %w", err)
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return "Redis " + strings.TrimSpace(v), nil
		}
	}
	return "", errors.New("the server does not say its version")
}

// startRedis starts a server that listens on a socket only.
func startRedis(ctx context.Context, dir string, always bool) (p *process, socket string, err error) {
	socket = filepath.Join(dir, "redis.sock")
	args := []string{"--port", "0", "--unixsocket", socket, "--dir", dir}
	if always {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always", "--save", "")
	}
	if p, err = startProcess(dir, nil, "redis-server", args...); err != nil {
		return nil, "", err
	}
	return p, socket, p.until(ctx, func(ctx context.Context) error {
		c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
		defer c.Close()
		return c.Ping(ctx).Err()
	})
}

// syncAlways makes a running server append and fsync every change from now on.
func syncAlways(ctx context.Context, socket string) error {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer c.Close()
	for _, s := range [][2]string{{"appendfsync", "always"}, {"appendonly", "yes"}, {"save", ""}} {
		if err := c.ConfigSet(ctx, s[0], s[1]).Err(); err != nil {
			return fmt.Errorf("set %s: %w", s[0], err)
		}
	}
	return nil
}
