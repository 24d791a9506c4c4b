package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/taskengine/taskengine/bench/result"
)

func natsSubjects() []subject {
	var out []subject
	for _, always := range []bool{false, true} {
		about := result.Subject{
			Name: "NATS JetStream", Version: moduleVersion("github.com/nats-io/nats-server/v2"), Store: "file, one stream with work-queue retention",
			Durability: "none: the default is to fsync every 2 minutes; a crash of the machine loses what came since",
		}
		suffix := ""
		if always {
			suffix = "-always"
			about.Durability = "every message is fsynced before it is acknowledged (sync_interval always); acknowledgements by consumers are not waited for"
		}
		best, usual := about, about
		best.Settings = "atomic batches; consumer with 4096 messages ahead; a log, not a task queue: no delays, priorities or results"
		usual.Settings = "defaults: Publish; consumer with 500 messages ahead"
		out = append(out,
			subject{
				Subject: best, short: "jetstream-best" + suffix, durable: always, best: true, batch: 1000, loaders: 4, singles: 512,
				open: func(ctx context.Context, e env) (peer, error) { return openNATS(ctx, e, always, true) },
			},
			subject{
				Subject: usual, short: "jetstream" + suffix, durable: always, batch: 1, loaders: 256, singles: 512,
				open: func(ctx context.Context, e env) (peer, error) { return openNATS(ctx, e, always, false) },
			})
	}
	return out
}

type natsPeer struct {
	server  *process
	conn    *nats.Conn
	js      jetstream.JetStream
	stream  jetstream.Stream
	best    bool
	consume jetstream.ConsumeContext // nil until work
}

func openNATS(ctx context.Context, e env, always, best bool) (peer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf("listen: %s\njetstream: { store_dir: %q%s }\n", local(port), filepath.Join(e.dir, "store"), map[bool]string{true: ", sync_interval: always"}[always])
	file := filepath.Join(e.dir, "nats.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return nil, err
	}
	p := &natsPeer{best: best}
	if p.server, err = startProcess(e.dir, nil, filepath.Join(e.bin, "nats-server"), "-c", file); err != nil {
		return nil, err
	}
	err = p.server.until(ctx, func(ctx context.Context) error {
		if p.conn == nil || !p.conn.IsConnected() {
			if p.conn, err = nats.Connect("nats://" + local(port)); err != nil {
				return err
			}
			if p.js, err = jetstream.New(p.conn); err != nil {
				return err
			}
		}
		p.stream, err = p.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: "jobs", Subjects: []string{"jobs"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, AllowAtomicPublish: true,
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *natsPeer) insert(ctx context.Context, payloads ...[]byte) error {
	if len(payloads) == 1 {
		_, err := p.js.Publish(ctx, "jobs", payloads[0])
		return err
	}
	// An atomic batch (since version 2.12, at most 1000 messages): only the last message
	// is answered, and all are fsynced together. The client has no call for it yet.
	batch := nuid.Next()
	for i, b := range payloads {
		m := nats.NewMsg("jobs")
		m.Data = b
		m.Header.Set("Nats-Batch-Id", batch)
		m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
		if i < len(payloads)-1 {
			if err := p.conn.PublishMsg(m); err != nil {
				return err
			}
			continue
		}
		m.Header.Set("Nats-Batch-Commit", "1")
		return committed(p.conn.RequestMsgWithContext(ctx, m))
	}
	return nil
}

// committed returns what is wrong with the answer to a batch.
func committed(m *nats.Msg, err error) error {
	if err != nil {
		return err
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("the answer to a batch: %w", err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}

func (p *natsPeer) work(ctx context.Context, handle func([]byte)) error {
	config := jetstream.ConsumerConfig{Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy}
	var options []jetstream.PullConsumeOpt
	if p.best {
		config.MaxAckPending = 16_384
		options = append(options, jetstream.PullMaxMessages(4096))
	}
	c, err := p.stream.CreateOrUpdateConsumer(ctx, config)
	if err != nil {
		return err
	}
	p.consume, err = c.Consume(func(m jetstream.Msg) {
		handle(m.Data())
		_ = m.Ack() // one that is lost shows as a message that stays
	}, options...)
	return err
}

func (p *natsPeer) idle(ctx context.Context) (bool, error) {
	info, err := p.stream.Info(ctx)
	if err != nil {
		return false, err
	}
	return info.State.Msgs == 0, nil
}

func (p *natsPeer) close() error {
	if p.consume != nil {
		p.consume.Stop()
		select {
		case <-p.consume.Closed():
		case <-time.After(5 * time.Second):
		}
	}
	p.conn.Close()
	return p.server.stop()
}
