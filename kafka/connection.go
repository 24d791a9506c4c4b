package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/tlsfiles"
)

const (
	dialTimeout = 5 * time.Second
	// requestOverhead is how long a broker may take for a request, beyond the time that the request itself allows it.
	requestOverhead = 5 * time.Second
	// metadataAge is how long the answer of a broker about topics is used, also if the topic is not in it.
	metadataAge = time.Second
)

// Connection describes how to connect to the brokers of a cluster.
type Connection struct {
	Name     string   // for errors
	Brokers  []string // the addresses of some of them, as host:port; the client learns the others from these
	ClientID string   // in the logs and quotas of brokers; "" for taskengine
	TLS      *tlsfiles.Client
	SASL     *SASL // nil: the brokers do not ask who the client is

	// Dial connects to the address of a broker; nil is by the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client returns a client for the connection, with further options. It connects when it is used. The files of TLS and
// the secrets of SASL are read again for each connection to a broker. The caller closes the client.
func (c Connection) Client(options ...kgo.Opt) (*kgo.Client, error) {
	if len(c.Brokers) == 0 {
		return nil, fmt.Errorf("kafka.%s: no broker is named", c.Name)
	}
	id := c.ClientID
	if id == "" {
		id = "taskengine"
	}
	all := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...), kgo.ClientID(id),
		kgo.RequestTimeoutOverhead(requestOverhead), kgo.MetadataMinAge(metadataAge), kgo.DisableClientMetrics(),
		kgo.Dialer(c.dial),
	}
	if c.TLS != nil {
		if _, err := c.TLS.Config(); err != nil {
			return nil, fmt.Errorf("kafka.%s.tls: %w", c.Name, err)
		}
	}
	if c.SASL != nil {
		mechanism, err := c.SASL.mechanism()
		if err != nil {
			return nil, fmt.Errorf("kafka.%s.sasl: %w", c.Name, err)
		}
		all = append(all, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(append(all, options...)...)
	if err != nil {
		return nil, fmt.Errorf("kafka.%s: %w", c.Name, err)
	}
	return client, nil
}

// dial connects to a broker, by TLS with the files as they are now if the connection has that.
func (c Connection) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: dialTimeout}).DialContext
	}
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if c.TLS != nil {
		if conn, err = c.encrypt(ctx, conn, address); err != nil {
			return nil, err
		}
	}
	return &patientConn{Conn: conn}, nil
}

// encrypt returns conn by TLS. It closes conn if it returns an error.
func (c Connection) encrypt(ctx context.Context, plain net.Conn, address string) (net.Conn, error) {
	config, err := c.TLS.Config()
	if err != nil {
		_ = plain.Close() // nothing was sent
		return nil, fmt.Errorf("tls: %w", err)
	}
	if config.ServerName == "" {
		if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
			_ = plain.Close() // nothing was sent
			return nil, err
		}
	}
	conn := tls.Client(plain, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = plain.Close() // the handshake has failed already
		return nil, err
	}
	return conn, nil
}

// Probe returns an error unless a broker answers.
func (c Connection) Probe(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return c.Unreachable(err)
	}
	return nil
}

// ProbeTopic returns an error unless the brokers show a topic to the user of the connection.
func (c Connection) ProbeTopic(ctx context.Context, topic string) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(ctx, topic)
	shown := err
	if err == nil {
		shown = topics[topic].Err
	}
	r, refused := RefusalOf(topic, shown)
	switch {
	case refused:
		return fmt.Errorf("kafka.%s: %s: %w", c.Name, r.Advice, shown)
	case err != nil:
		return c.Unreachable(err)
	case shown != nil:
		return fmt.Errorf("kafka.%s: topic %s: %w", c.Name, topic, shown)
	}
	return nil
}

// ProbeReading returns why the user of the connection cannot read some of the topics, by topic; nil if it can read all of
// them. Brokers before Kafka 2.3 do not say whether a user that sees a topic may read it.
func (c Connection) ProbeReading(ctx context.Context, topics ...string) (map[string]error, error) {
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var found map[string]error
	for _, topic := range topics {
		err := c.probeReading(ctx, kadm.NewClient(client), topic)
		if err == nil {
			continue
		}
		if found == nil {
			found = make(map[string]error)
		}
		if found[topic] = err; ctx.Err() != nil {
			break // the others would say the same
		}
	}
	return found, nil
}

func (c Connection) probeReading(ctx context.Context, admin *kadm.Client, topic string) error {
	topics, err := admin.ListTopicsWithInternal(kadm.WithAuthorizedOps(ctx), topic)
	of := topics[topic]
	shown := cmp.Or(err, of.Err)
	switch {
	case errors.Is(shown, kerr.TopicAuthorizationFailed),
		shown == nil && len(of.AuthorizedOperations) > 0 && !slices.Contains(of.AuthorizedOperations, kadm.OpRead):
		return fmt.Errorf("kafka.%s: the user may not read topic %s; allow it to, by an ACL for READ", c.Name, topic)
	case shown == nil:
		return nil
	}
	if r, refused := RefusalOf(topic, shown); refused {
		return fmt.Errorf("kafka.%s: %s: %w", c.Name, r.Advice, shown)
	}
	if err != nil {
		return c.Unreachable(err)
	}
	return fmt.Errorf("kafka.%s: topic %s: %w", c.Name, topic, shown)
}

// Unreachable returns the error of a connection on which no broker answers: err is the answer or silence of the last one.
func (c Connection) Unreachable(err error) error {
	what := "no broker of it answers; look whether " + list(c.Brokers) + " can be reached from here"
	switch {
	case isRefusedUser(err):
		what = "the brokers refuse the user; correct kafka." + c.Name + ".sasl"
	case IsAnswer(err):
		what = "a broker answers with an error"
	case isTLS(err):
		what = "the connection cannot be encrypted; correct kafka." + c.Name + ".tls"
	case isClosedAtOnce(err), c.TLS == nil && !isNetwork(err):
		what = "the brokers do not speak with such a client; perhaps they need kafka." + c.Name + ".tls or sasl"
	}
	return fmt.Errorf("kafka.%s: %s: %w", c.Name, what, err)
}
