//go:build unix

// Package etcdtest starts real etcd servers for tests: clusters of one or more members, which can be killed, paused and
// started again. Nothing of them outlives the test process, however that ends.
package etcdtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/taskengine/taskengine/internal/freeze"
	"github.com/taskengine/taskengine/internal/servertest"
)

// binVariable names the program if that of the PATH is not to be used.
const binVariable = "TASKENGINE_ETCD"

// Cluster is a cluster of etcd servers that belongs to this process, without authentication. Its writes are durable. It
// elects a leader within a second, so that leases of a second are possible. One goroutine at a time calls its methods.
type Cluster struct {
	path    string
	flags   []string // of all members
	scheme  string   // of the URLs for clients
	reach   func(member int, address string) string
	group   *servertest.Group
	members []*member
}

type member struct {
	name                 string
	client, health, peer string              // URLs
	reached              string              // the URL for the other members
	process              *servertest.Process // nil while it is down
}

// Option changes how the members of a cluster are started.
type Option func(*Cluster)

// WithFlags passes further flags to each member.
func WithFlags(flags ...string) Option {
	return func(c *Cluster) { c.flags = append(c.flags, flags...) }
}

// WithNetwork changes the addresses that members use for each other: reach returns the address to use for the listen
// address of a member.
func WithNetwork(reach func(member int, address string) string) Option {
	return func(c *Cluster) { c.reach = reach }
}

// WithTLS has members demand a certificate of an authority from their clients. They present a certificate themselves.
// Everything is in files as PEM.
func WithTLS(cert, key, authority string) Option {
	return func(c *Cluster) {
		c.scheme = "https://"
		c.flags = append(c.flags, "--cert-file", cert, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", authority)
	}
}

// Start starts a cluster of a number of members, and returns when it answers. The caller closes it. The program is that
// of $TASKENGINE_ETCD if that is set, else that of the PATH.
func Start(members int, options ...Option) (*Cluster, error) {
	path := os.Getenv(binVariable)
	if path == "" {
		var err error
		if path, err = exec.LookPath("etcd"); err != nil {
			return nil, errors.New("etcdtest: there is no etcd; install it with `apt-get install etcd-server` or `brew install etcd`, or set " + binVariable)
		}
	}
	group, err := servertest.NewGroup("etcdtest", nil)
	if err != nil {
		return nil, fmt.Errorf("etcdtest: %w", err)
	}
	c := &Cluster{path: path, scheme: "http://", group: group}
	for _, option := range options {
		option(c)
	}
	if _, err := servertest.AtFreePort(func(int) error { return c.create(members) }); err != nil {
		return nil, errors.Join(fmt.Errorf("etcdtest: starting etcd: %w", err), c.Close())
	}
	return c, nil
}

// Run is for TestMain: see that of package pgtest.
func Run(m *testing.M, members int, use func(*Cluster)) int {
	c, err := Start(members)
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

// create starts new members at free ports.
func (c *Cluster) create(members int) error {
	c.members = nil
	for i := range members {
		m := &member{name: fmt.Sprint("m", i+1)}
		for _, url := range []*string{&m.client, &m.health, &m.peer} {
			port, err := servertest.AtFreePort(func(int) error { return nil })
			if err != nil {
				return err
			}
			*url = fmt.Sprint("http://127.0.0.1:", port)
		}
		m.client, m.reached = c.scheme+m.address(), m.peer
		if c.reach != nil {
			m.reached = "http://" + c.reach(i, strings.TrimPrefix(m.peer, "http://"))
		}
		c.members = append(c.members, m)
	}
	var failed error
	for i := range c.members {
		failed = errors.Join(failed, os.RemoveAll(c.data(i)), c.launch(i, "new"))
	}
	for i := range c.members {
		if failed == nil {
			failed = c.await(i)
		}
	}
	if failed != nil {
		for i := range c.members {
			failed = errors.Join(failed, c.stop(i, syscall.SIGKILL))
		}
	}
	return failed
}

// address returns where clients connect to, as host:port.
func (m *member) address() string {
	_, address, _ := strings.Cut(m.client, "://")
	return address
}

func (c *Cluster) data(i int) string { return filepath.Join(c.group.Folder(), c.members[i].name) }

func (c *Cluster) launch(i int, state string) error {
	var all []string
	for _, m := range c.members {
		all = append(all, m.name+"="+m.reached)
	}
	m := c.members[i]
	flags := append([]string{
		"--name", m.name, "--data-dir", c.data(i),
		"--listen-client-urls", m.client, "--advertise-client-urls", m.client, "--listen-metrics-urls", m.health,
		"--listen-peer-urls", m.peer, "--initial-advertise-peer-urls", m.reached,
		"--initial-cluster", strings.Join(all, ","), "--initial-cluster-state", state,
		"--heartbeat-interval", "50", "--election-timeout", "500",
	}, c.flags...)
	p, err := c.group.Start(m.name, c.path, flags...)
	if err != nil {
		return err
	}
	m.process = p
	return nil
}

// await waits until a member answers as one of a cluster with a leader.
func (c *Cluster) await(i int) error {
	m := c.members[i]
	err := m.process.Await(func(ctx context.Context) error {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, m.health+"/health", nil)
		if err != nil {
			return err
		}
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		if a.StatusCode != http.StatusOK {
			return fmt.Errorf("it is not healthy: %s", a.Status)
		}
		return nil
	})
	if err != nil {
		m.process = nil
	}
	return err
}

// Endpoints returns the addresses of the members as host:port.
func (c *Cluster) Endpoints() []string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.address())
	}
	return all
}

// PIDs returns the process ids of the members, which all run.
func (c *Cluster) PIDs() []int {
	var all []int
	for _, m := range c.members {
		all = append(all, m.process.PID())
	}
	return all
}

// Kill kills a member, which can be restarted.
func (c *Cluster) Kill(i int) error { return c.stop(i, syscall.SIGKILL) }

// Restart starts a member that was killed on its data, and returns when it answers.
func (c *Cluster) Restart(i int) error {
	if err := c.launch(i, "existing"); err != nil {
		return err
	}
	return c.await(i)
}

// Pause stops a member until Resume, as a machine that hangs.
func (c *Cluster) Pause(i int) error {
	return freeze.Stop(c.members[i].process.PID())
}

// Resume lets a member go on.
func (c *Cluster) Resume(i int) error {
	return freeze.Continue(c.members[i].process.PID())
}

func (c *Cluster) stop(i int, signal syscall.Signal) error {
	p := c.members[i].process
	if p == nil {
		return nil
	}
	c.members[i].process = nil
	return p.End(signal)
}

// Keep copies the data of all members, as a backup. They are restarted for that.
func (c *Cluster) Keep() error {
	return c.replace(func(data, backup string) error { return c.group.Run("cp", "-a", data, backup) })
}

// GoBack replaces all data by the copy that Keep has made. It can be called again.
func (c *Cluster) GoBack() error {
	return c.replace(func(data, backup string) error {
		return errors.Join(os.RemoveAll(data), c.group.Run("cp", "-a", backup, data))
	})
}

// Lose removes all data: the cluster starts empty.
func (c *Cluster) Lose() error {
	return c.replace(func(data, _ string) error { return os.RemoveAll(data) })
}

// replace does something with the data of each member and with where its backup is, while no member runs.
func (c *Cluster) replace(with func(data, backup string) error) error {
	var failed error
	for i := range c.members {
		failed = errors.Join(failed, c.Kill(i))
	}
	for i := range c.members {
		if failed == nil {
			failed = errors.Join(with(c.data(i), c.data(i)+".backup"), c.launch(i, "new"))
		}
	}
	for i := range c.members {
		if failed == nil {
			failed = c.await(i)
		}
	}
	return failed
}

// Requests returns how many requests the first member has been sent since it was started.
func (c *Cluster) Requests() (n int64, err error) {
	a, err := http.Get(c.members[0].health + "/metrics")
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	lines := bufio.NewScanner(a.Body)
	for lines.Scan() {
		if text := lines.Text(); strings.HasPrefix(text, "grpc_server_msg_received_total") {
			count, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
			if err != nil {
				return 0, err
			}
			n += int64(count)
		}
	}
	return n, lines.Err()
}

// Close ends all members and removes their data.
func (c *Cluster) Close() error {
	var failed error
	for i := range c.members {
		failed = errors.Join(failed, c.stop(i, syscall.SIGKILL))
	}
	return errors.Join(failed, c.group.Close())
}
