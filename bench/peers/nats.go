package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
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
			Name: "NATS JetStream", Store: "file, one stream with work-queue retention",
			Durability: "none: the default is to fsync every 2 minutes, and a crash of the machine loses what came since; acknowledgements of consumers are sent and NOT waited for",
		}
		suffix := ""
		if always {
			suffix = "-always"
			about.Durability = "every message is fsynced before it is acknowledged (sync_interval always); consumers wait for the server's answer to their acknowledgement (DoubleAck), after which a stream forgets the message"
		}
		best, usual := about, about
		best.Settings = "atomic batches; consumer with 4096 messages ahead; a log, not a task queue: no delays, priorities or results; a port of the loopback interface"
		usual.Settings = "defaults: Publish; consumer with 500 messages ahead; a port of the loopback interface"
		variants := only(func(ctx context.Context, e env) (peer, error) { return openNATS(ctx, e, natsSettings{ahead: 4096}) })
		defaults := natsSettings{}
		if always {
			usual.Settings += fmt.Sprintf("; %d goroutines that wait for acknowledgements", natsWaiters)
			defaults = natsSettings{always: true, waiters: natsWaiters}
			variants = counts("workers", func(ctx context.Context, e env, n int) (peer, error) {
				return openNATS(ctx, e, natsSettings{always: true, ahead: 4096, waiters: n})
			}, 4, 16, 64, 256)
		}
		out = append(out,
			subject{
				Subject: best, short: "jetstream-best" + suffix, durable: always, main: true, batch: 1000, loaders: 4, singles: 512,
				variants: variants,
			},
			subject{
				Subject: usual, short: "jetstream" + suffix, durable: always, batch: 1, loaders: 256, singles: 512,
				variants: only(func(ctx context.Context, e env) (peer, error) { return openNATS(ctx, e, defaults) }),
			})
	}
	return out
}

// natsWaiters is the number of goroutines that wait for acknowledgements with default settings: the
// client calls one handler at a time, which would wait for each.
const natsWaiters = 16

type natsSettings struct {
	always  bool // fsync every message
	ahead   int  // messages that a consumer is sent ahead; 0 is the client's default
	waiters int  // goroutines that handle, acknowledge and wait for the answer; 0 is not to wait for it
}

type natsPeer struct {
	server  *process
	conn    *nats.Conn
	js      jetstream.JetStream
	stream  jetstream.Stream
	with    natsSettings
	consume jetstream.ConsumeContext // nil until work
	todo    chan jetstream.Msg       // nil if acknowledgements are not awaited
	working sync.WaitGroup
	failure workFailure
}

func openNATS(ctx context.Context, e env, with natsSettings) (peer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	sync := ""
	if with.always {
		sync = ", sync_interval: always"
	}
	config := fmt.Sprintf("listen: %s\njetstream: { store_dir: %q%s }\n", local(port), filepath.Join(e.dir, "store"), sync)
	file := filepath.Join(e.dir, "nats.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return nil, err
	}
	p := &natsPeer{with: with}
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
	if p.with.ahead > 0 {
		config.MaxAckPending = 4 * p.with.ahead
		options = append(options, jetstream.PullMaxMessages(p.with.ahead))
	}
	c, err := p.stream.CreateOrUpdateConsumer(ctx, config)
	if err != nil {
		return err
	}
	each := func(m jetstream.Msg) {
		handle(m.Data())
		_ = m.Ack() // one that is lost shows as a message that stays
	}
	if p.with.waiters > 0 {
		p.todo = make(chan jetstream.Msg)
		each = func(m jetstream.Msg) { p.todo <- m }
		for range p.with.waiters {
			p.working.Go(func() { p.wait(context.WithoutCancel(ctx), handle) })
		}
	}
	p.consume, err = c.Consume(each, options...)
	return err
}

// wait handles messages, and waits until the server has answered that it knows.
func (p *natsPeer) wait(ctx context.Context, handle func([]byte)) {
	for m := range p.todo {
		handle(m.Data())
		answered, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := m.DoubleAck(answered)
		cancel()
		if err != nil {
			p.failure.note(fmt.Errorf("JetStream did not answer an acknowledgement: %w", err))
		}
	}
}

func (p *natsPeer) version(context.Context) (queue, store string, err error) {
	return p.conn.ConnectedServerVersion(), "", nil
}

func (p *natsPeer) idle(ctx context.Context) (bool, error) {
	if err := p.failure.err(); err != nil {
		return false, err
	}
	info, err := p.stream.Info(ctx)
	if err != nil {
		return false, err
	}
	return info.State.Msgs == 0, nil
}

func (p *natsPeer) close() error {
	p.failure.close()
	var err error
	if p.consume != nil {
		p.consume.Stop()
		select {
		case <-p.consume.Closed():
			if p.todo != nil {
				close(p.todo)
				p.working.Wait()
			}
		case <-time.After(5 * time.Second):
			err = errors.New("the consumer did not stop")
		}
	}
	p.conn.Close()
	return errors.Join(err, p.server.stop())
}
