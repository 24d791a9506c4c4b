//go:build unix

// Package kafkatest starts real Apache Kafka brokers for tests: clusters of one or more brokers, which can be killed,
// paused and started again. Nothing of them outlives the test process, however that ends.
package kafkatest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/taskengine/taskengine/internal/freeze"
	"github.com/taskengine/taskengine/internal/servertest"
)

// jarsVariable names the folder with the jars if they are not where scripts/kafka puts them.
const jarsVariable = "TASKENGINE_KAFKA"

// version is that of scripts/kafka.
const version = "4.4.0"

const clusterID = "klIiMBTcSKWt0UZ5zqvvrw" // any UUID in base64

// Cluster is a cluster of brokers that belongs to this process. Each broker is a controller as well. Topics are not
// created by their first use. One goroutine at a time calls its methods.
type Cluster struct {
	jars    string   // the class path of a broker
	flags   []string // of Java
	lines   []string // of the configuration of all brokers
	tls     bool
	sasl    bool
	users   map[string]string // of SASL, with their passwords
	group   *servertest.Group
	brokers []*broker
}

type broker struct {
	name                       string
	client, broker, controller int                 // ports: for clients, for other brokers, and for controllers
	process                    *servertest.Process // nil while it is down
}

// Option changes how the brokers of a cluster are started.
type Option func(*Cluster)

// WithTLS makes the brokers require TLS from clients. Clients need a certificate of authority. The brokers present the
// certificate in certAndKey, a file that has its key as well. All files are PEM.
func WithTLS(certAndKey, authority string) Option {
	return func(c *Cluster) {
		c.tls = true
		c.lines = append(c.lines,
			"ssl.keystore.type=PEM", "ssl.keystore.location="+certAndKey,
			"ssl.truststore.type=PEM", "ssl.truststore.location="+authority, "listener.name.clients.ssl.client.auth=required")
	}
}

// WithUsers has clients prove that they are one of these users, by SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN. Names and
// passwords have no quotes and backslashes. Brokers with an authorizer need the super user ANONYMOUS: each other.
func WithUsers(passwords map[string]string) Option {
	return func(c *Cluster) {
		c.sasl, c.users = true, passwords
		plain := "listener.name.clients.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
		for user, password := range passwords {
			plain += fmt.Sprintf(" user_%s=%q", user, password)
		}
		const scram = "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;"
		c.lines = append(c.lines, "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN", plain+";",
			"listener.name.clients.scram-sha-256."+scram, "listener.name.clients.scram-sha-512."+scram)
	}
}

// WithTokens has clients prove who they are by a [Token] of OAUTHBEARER.
func WithTokens() Option {
	return func(c *Cluster) {
		c.sasl = true
		c.lines = append(c.lines, "sasl.enabled.mechanisms=OAUTHBEARER", "listener.name.clients.oauthbearer.sasl.jaas.config="+
			`org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`)
	}
}

// Token returns a token of a user, which brokers of WithTokens accept until a time. It is not signed.
func Token(user string, until time.Time) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, user, until.Add(-time.Hour).Unix(), until.Unix())) + "."
}

// WithLines adds lines to the configuration of each broker.
func WithLines(lines ...string) Option {
	return func(c *Cluster) { c.lines = append(c.lines, lines...) }
}

// Lasting is for brokers that no test ends: they have more time for their heartbeats. Others are taken for dead after a
// second, so that a broker that was killed can be started again at once.
func Lasting() Option { return WithLines("broker.session.timeout.ms=30000") }

// Start starts a cluster of a number of brokers, and returns when they accept clients. The caller closes it.
func Start(brokers int, options ...Option) (*Cluster, error) {
	jars := os.Getenv(jarsVariable)
	if jars == "" {
		jars = filepath.Join(cache(), "kafka-"+version)
	}
	if _, err := os.Stat(jars); err != nil {
		return nil, fmt.Errorf("kafkatest: there is no Kafka: %w; run scripts/kafka, or set %s", err, jarsVariable)
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, errors.New("kafkatest: there is no java; install it with `apt-get install openjdk-17-jre-headless` or `brew install openjdk`")
	}
	paths, err := filepath.Glob(filepath.Join(jars, "*.jar"))
	if err != nil {
		return nil, fmt.Errorf("kafkatest: %w", err)
	}
	classes := strings.Join(paths, string(filepath.ListSeparator))
	flags := flagsOfBroker("-Xrs")
	if file, err := archive(java, classes); err != nil {
		fmt.Fprintf(os.Stderr, "kafkatest: brokers start slowly: archive their classes: %v\n", err)
	} else {
		flags = append(flags, "-XX:SharedArchiveFile="+file)
	}
	return start(classes, flags, brokers, options...)
}

// cache returns the folder that scripts/kafka uses.
func cache() string {
	return filepath.Join(cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(os.Getenv("HOME"), ".cache")), "taskengine")
}

// start is Start with a class path and flags of Java.
func start(classes string, flags []string, brokers int, options ...Option) (*Cluster, error) {
	group, err := servertest.NewGroup("kafkatest", nil)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: %w", err)
	}
	c := &Cluster{jars: classes, flags: flags, group: group}
	for _, option := range options {
		option(c)
	}
	if _, err := servertest.AtFreePort(func(int) error { return c.create(brokers) }); err != nil {
		return nil, errors.Join(fmt.Errorf("kafkatest: starting Kafka: %w", err), c.Close())
	}
	return c, nil
}

// New is Start for a test, which closes the cluster.
func New(tb testing.TB, brokers int, options ...Option) *Cluster {
	tb.Helper()
	c, err := Start(brokers, options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// Run is for TestMain: see that of package pgtest. The brokers are Lasting.
func Run(m *testing.M, brokers int, use func(*Cluster)) int {
	c, err := Start(brokers, Lasting())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(c)
	code := m.Run()
	if err := c.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// create starts new brokers at free ports.
func (c *Cluster) create(brokers int) error {
	c.brokers = nil
	for i := range brokers {
		b := &broker{name: fmt.Sprint("b", i+1)}
		for _, port := range []*int{&b.client, &b.broker, &b.controller} {
			var err error
			if *port, err = servertest.AtFreePort(func(int) error { return nil }); err != nil {
				return err
			}
		}
		c.brokers = append(c.brokers, b)
	}
	var failed error
	for i := range c.brokers {
		if failed == nil {
			failed = c.format(i)
		}
	}
	for i := range c.brokers {
		if failed == nil {
			failed = c.launch(i)
		}
	}
	for i := range c.brokers {
		if failed == nil {
			failed = c.await(i)
		}
	}
	if failed == nil && c.users != nil {
		failed = c.addUsers()
	}
	if failed != nil {
		for i := range c.brokers {
			failed = errors.Join(failed, c.Kill(i))
		}
	}
	return failed
}

// file returns the path of a file of a broker.
func (c *Cluster) file(i int, suffix string) string {
	return filepath.Join(c.group.Folder(), c.brokers[i].name+suffix)
}

// configuration returns the lines for a broker. Of two lines for one key the last one counts.
func (c *Cluster) configuration(i int) []string {
	b := c.brokers[i]
	protocol := "PLAINTEXT"
	switch {
	case c.tls && c.sasl:
		protocol = "SASL_SSL"
	case c.tls:
		protocol = "SSL"
	case c.sasl:
		protocol = "SASL_PLAINTEXT"
	}
	var voters []string
	for n, o := range c.brokers {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", n+1, o.controller))
	}
	copies := min(3, len(c.brokers))
	return slices.Concat([]string{
		"process.roles=broker,controller", fmt.Sprint("node.id=", i+1), "controller.quorum.voters=" + strings.Join(voters, ","),
		fmt.Sprintf("listeners=CLIENTS://127.0.0.1:%d,BROKERS://127.0.0.1:%d,CONTROLLERS://127.0.0.1:%d", b.client, b.broker, b.controller),
		fmt.Sprintf("advertised.listeners=CLIENTS://127.0.0.1:%d,BROKERS://127.0.0.1:%d", b.client, b.broker),
		"listener.security.protocol.map=CLIENTS:" + protocol + ",BROKERS:PLAINTEXT,CONTROLLERS:PLAINTEXT",
		"controller.listener.names=CONTROLLERS", "inter.broker.listener.name=BROKERS",
		"log.dirs=" + c.file(i, ".data"), "num.partitions=1", "auto.create.topics.enable=false",
		fmt.Sprint("offsets.topic.replication.factor=", copies), "offsets.topic.num.partitions=1",
		fmt.Sprint("transaction.state.log.replication.factor=", copies), fmt.Sprint("transaction.state.log.min.isr=", min(2, copies)),
		"transaction.state.log.num.partitions=1",
		"share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1", "share.coordinator.state.topic.num.partitions=1",
		"group.initial.rebalance.delay.ms=0", "broker.session.timeout.ms=1000", "broker.heartbeat.interval.ms=200",
		"controller.quorum.election.timeout.ms=500", "controller.quorum.fetch.timeout.ms=800",
		"log.cleaner.dedupe.buffer.size=4194304",
	}, c.lines)
}

// format makes the folder of a broker, as the tool of Kafka does.
func (c *Cluster) format(i int) error {
	log := "status=error\nrootLogger.level=warn\nrootLogger.appenderRef.stderr.ref=stderr\n" +
		"appender.stderr.type=Console\nappender.stderr.name=stderr\nappender.stderr.target=SYSTEM_ERR\n"
	folder := make([]byte, 16)
	_, _ = rand.Read(folder) // never fails
	meta := fmt.Sprintf("version=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", clusterID, i+1, base64.RawURLEncoding.EncodeToString(folder))
	return errors.Join(
		os.RemoveAll(c.Data(i)), os.Mkdir(c.Data(i), 0o700),
		os.WriteFile(filepath.Join(c.Data(i), "meta.properties"), []byte(meta), 0o600),
		os.WriteFile(c.file(i, ".log4j2.properties"), []byte(log), 0o600),
		os.WriteFile(c.file(i, ".properties"), []byte(strings.Join(c.configuration(i), "\n")+"\n"), 0o600),
	)
}

func (c *Cluster) launch(i int) error {
	p, err := c.group.Start(c.brokers[i].name, "java", slices.Concat(c.flags, []string{
		"-Djava.io.tmpdir=" + c.group.Folder(), // for the libraries that a broker unpacks
		"-Dlog4j2.configurationFile=" + c.file(i, ".log4j2.properties"), "-cp", c.jars, "kafka.Kafka", c.file(i, ".properties"),
	})...)
	if err != nil {
		return err
	}
	c.brokers[i].process = p
	return nil
}

// await waits until a broker accepts clients, and the cluster gives it partitions: that can be later.
func (c *Cluster) await(i int) error {
	b := c.brokers[i]
	err := b.process.Await(func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", c.Brokers()[i])
		if err == nil {
			err = conn.Close()
		}
		if err == nil {
			err = c.isMember(ctx, i)
		}
		return err
	})
	if err != nil {
		b.process = nil
	}
	return err
}

// isMember returns an error unless a broker says that it is one of the cluster.
func (c *Cluster) isMember(ctx context.Context, i int) error {
	client, err := c.inside(i)
	if err != nil {
		return err
	}
	defer client.Close()
	meta, err := client.BrokerMetadata(ctx)
	if err == nil && !slices.Contains(meta.Brokers.NodeIDs(), int32(i+1)) {
		err = errors.New("the broker is not in the cluster yet")
	}
	return err
}

// inside returns a client of the port for other brokers, which needs no user.
func (c *Cluster) inside(i int) (*kadm.Client, error) {
	client, err := Client([]string{net.JoinHostPort("127.0.0.1", strconv.Itoa(c.brokers[i].broker))})
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(client), nil
}

// addUsers gives the users of a new cluster their passwords for SCRAM. Those for PLAIN are in the configuration.
func (c *Cluster) addUsers() error {
	client, err := c.inside(0)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), servertest.Patience)
	defer cancel()
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} { // a request has each user once
		var all []kadm.UpsertSCRAM
		for user, password := range c.users {
			all = append(all, kadm.UpsertSCRAM{User: user, Mechanism: mechanism, Iterations: 4096, Password: password})
		}
		done, err := client.AlterUserSCRAMs(ctx, nil, all)
		if err == nil {
			err = done.Error()
		}
		if err != nil {
			return fmt.Errorf("add users: %w", err)
		}
	}
	return nil
}

// Data returns the folder with the topics of a broker. A test may change it while the broker is down.
func (c *Cluster) Data(i int) string { return c.file(i, ".data") }

// Brokers returns the addresses of the brokers as host:port.
func (c *Cluster) Brokers() []string {
	var all []string
	for _, b := range c.brokers {
		all = append(all, net.JoinHostPort("127.0.0.1", strconv.Itoa(b.client)))
	}
	return all
}

// Kill kills a broker, which can be restarted.
func (c *Cluster) Kill(i int) error { return c.end(i, syscall.SIGKILL) }

func (c *Cluster) end(i int, signal syscall.Signal) error {
	p := c.brokers[i].process
	if p == nil {
		return nil
	}
	c.brokers[i].process = nil
	return p.End(signal)
}

// Restart starts a broker that was ended on its data, and returns when it accepts clients.
func (c *Cluster) Restart(i int) error {
	if err := c.launch(i); err != nil {
		return err
	}
	return c.await(i)
}

// Pause stops a broker until Resume, as a machine that hangs.
func (c *Cluster) Pause(i int) error {
	return freeze.Stop(c.brokers[i].process.PID())
}

// Resume lets a broker go on.
func (c *Cluster) Resume(i int) error {
	return freeze.Continue(c.brokers[i].process.PID())
}

// Close ends all brokers and removes their data.
func (c *Cluster) Close() error {
	var failed error
	for i := range c.brokers {
		failed = errors.Join(failed, c.Kill(i))
	}
	return errors.Join(failed, c.group.Close())
}
