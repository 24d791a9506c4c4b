//go:build unix

// Package zktest starts real ZooKeeper servers for tests: ensembles of one or more servers, which can be killed, paused
// and started again. Nothing of them outlives the test process, however that ends.
package zktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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

// The class path: that which the variable names, or that of Debian's package. The manifest of Debian's zookeeper.jar
// lacks two jars that TLS needs.
const (
	jarVariable = "TASKENGINE_ZOOKEEPER"
	debianJar   = "/usr/share/java/zookeeper.jar"
	debianTLS   = "/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar"
)

// Ensemble is an ensemble of ZooKeeper servers that belongs to this process, without authentication. Its writes are
// durable. A tick is 100 ms, so that sessions last from 200 ms to 200 s. One goroutine at a time calls its methods.
type Ensemble struct {
	jar     string
	lines   []string // of the configuration of all servers
	secure  bool     // clients connect by TLS
	reach   func(server int, address string) string
	jaas    string   // the users of SASL, as a file for Java; "": there is no SASL
	java    []string // flags of Java
	group   *servertest.Group
	servers []*server
}

type server struct {
	name                   string
	client, peer, election int                 // ports
	secure                 int                 // the port for clients by TLS
	reached                string              // peer and election ports for the other servers, with a colon between them
	process                *servertest.Process // nil while it is down
}

// Option changes how the servers of an ensemble are started.
type Option func(*Ensemble)

// WithTLS makes the servers require TLS from clients. Clients need a certificate of authority. The servers present the
// certificate in certAndKey, a file that has its key as well. All files are PEM.
func WithTLS(certAndKey, authority string) Option {
	return func(e *Ensemble) {
		e.secure = true
		e.lines = append(e.lines, "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
			"ssl.keyStore.location="+certAndKey, "ssl.keyStore.type=PEM",
			"ssl.trustStore.location="+authority, "ssl.trustStore.type=PEM",
			"ssl.clientAuth=need", "ssl.hostnameVerification=false")
	}
}

// WithUsers has servers know users by SASL (DIGEST-MD5), and their passwords. Names and passwords have no quotes.
func WithUsers(passwords map[string]string) Option {
	return func(e *Ensemble) {
		e.lines = append(e.lines, "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
		var b strings.Builder
		b.WriteString("Server {\n org.apache.zookeeper.server.auth.DigestLoginModule required")
		for user, password := range passwords {
			fmt.Fprintf(&b, "\n user_%s=\"%s\"", user, password)
		}
		b.WriteString(";\n};\n")
		e.jaas = b.String()
	}
}

// WithNetwork changes the addresses that servers use for each other: reach returns the address to use for a listen
// address of a server.
func WithNetwork(reach func(server int, address string) string) Option {
	return func(e *Ensemble) { e.reach = reach }
}

// WithLines adds lines to the configuration of each server.
func WithLines(lines ...string) Option {
	return func(e *Ensemble) { e.lines = append(e.lines, lines...) }
}

// WithJava passes further flags to the Java of each server.
func WithJava(flags ...string) Option {
	return func(e *Ensemble) { e.java = append(e.java, flags...) }
}

// Start starts an ensemble of a number of servers, and returns when it answers. The caller closes it. The class path is
// that of $TASKENGINE_ZOOKEEPER if that is set, else that of Debian's package zookeeper.
func Start(servers int, options ...Option) (*Ensemble, error) {
	jar := os.Getenv(jarVariable)
	if jar == "" {
		jar = debianJar + ":" + debianTLS
		if _, err := os.Stat(debianJar); err != nil {
			return nil, errors.New("zktest: there is no ZooKeeper; install it with `apt-get install zookeeper`, or set " + jarVariable)
		}
	}
	if _, err := exec.LookPath("java"); err != nil {
		return nil, errors.New("zktest: there is no java, which ZooKeeper needs; install it with `apt-get install default-jre-headless` or `brew install openjdk`")
	}
	group, err := servertest.NewGroup("zktest", nil)
	if err != nil {
		return nil, fmt.Errorf("zktest: %w", err)
	}
	e := &Ensemble{jar: jar, group: group}
	for _, option := range options {
		option(e)
	}
	if _, err := servertest.AtFreePort(func(int) error { return e.create(servers) }); err != nil {
		return nil, errors.Join(fmt.Errorf("zktest: starting ZooKeeper: %w", err), e.Close())
	}
	return e, nil
}

// Run is for TestMain: see that of package pgtest.
func Run(m *testing.M, servers int, use func(*Ensemble)) int {
	e, err := Start(servers)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(e)
	code := m.Run()
	if err := e.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// create starts new servers at free ports.
func (e *Ensemble) create(servers int) error {
	e.servers = nil
	for i := range servers {
		s := &server{name: fmt.Sprint("s", i+1)}
		for _, port := range []*int{&s.client, &s.secure, &s.peer, &s.election} {
			var err error
			if *port, err = servertest.AtFreePort(func(int) error { return nil }); err != nil {
				return err
			}
		}
		s.reached = fmt.Sprint(s.peer, ":", s.election)
		if e.reach != nil {
			_, peer, _ := strings.Cut(e.reach(i, fmt.Sprint("127.0.0.1:", s.peer)), ":")
			_, election, _ := strings.Cut(e.reach(i, fmt.Sprint("127.0.0.1:", s.election)), ":")
			s.reached = peer + ":" + election
		}
		e.servers = append(e.servers, s)
	}
	var failed error
	for i := range e.servers {
		failed = errors.Join(failed, e.configure(i), e.launch(i))
	}
	for i := range e.servers {
		if failed == nil {
			failed = e.await(i)
		}
	}
	if failed != nil {
		for i := range e.servers {
			failed = errors.Join(failed, e.Kill(i))
		}
	}
	return failed
}

func (e *Ensemble) data(i int) string { return filepath.Join(e.group.Folder(), e.servers[i].name) }

func (e *Ensemble) jaasFile() string { return filepath.Join(e.group.Folder(), "jaas.conf") }

func (e *Ensemble) configure(i int) error {
	s := e.servers[i]
	lines := []string{
		"tickTime=100", "initLimit=100", "syncLimit=20", "maxSessionTimeout=200000",
		"dataDir=" + e.data(i), fmt.Sprint("clientPort=", s.client), "clientPortAddress=127.0.0.1",
		"admin.enableServer=false", "maxClientCnxns=0", "4lw.commands.whitelist=srvr",
	}
	lines = append(lines, e.lines...)
	if e.secure {
		lines = append(lines, fmt.Sprint("secureClientPort=", s.secure))
	}
	if len(e.servers) > 1 {
		for n, o := range e.servers {
			at := o.reached
			if n == i {
				at = fmt.Sprint(o.peer, ":", o.election)
			}
			lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%s", n+1, at))
		}
	}
	if err := os.RemoveAll(e.data(i)); err != nil {
		return err
	}
	if err := os.Mkdir(e.data(i), 0o700); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(e.jaasFile(), []byte(e.jaas), 0o600),
		os.WriteFile(filepath.Join(e.data(i), "myid"), []byte(strconv.Itoa(i+1)), 0o600),
		os.WriteFile(e.data(i)+".cfg", []byte(strings.Join(lines, "\n")+"\n"), 0o600),
	)
}

// launch starts a server. With -Xrs it ends by SIGQUIT, which the watchdog sends, and writes no list of threads instead.
func (e *Ensemble) launch(i int) error {
	flags := []string{"-Xrs", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	if e.jaas != "" {
		flags = append(flags, "-Djava.security.auth.login.config="+e.jaasFile())
	}
	flags = append(flags, e.java...)
	flags = append(flags, "-cp", e.jar, "org.apache.zookeeper.server.quorum.QuorumPeerMain", e.data(i)+".cfg")
	p, err := e.group.Start(e.servers[i].name, "java", flags...)
	if err != nil {
		return err
	}
	e.servers[i].process = p
	return nil
}

// await waits until a server reports its role in the ensemble: before that it refuses clients.
func (e *Ensemble) await(i int) error {
	s := e.servers[i]
	err := s.process.Await(func(ctx context.Context) error {
		said, err := s.says(ctx)
		if err == nil && !strings.Contains(said, "Mode:") {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	})
	if err != nil {
		s.process = nil
	}
	return err
}

// says returns the status of a server.
func (s *server) says(ctx context.Context) (string, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", fmt.Sprint("127.0.0.1:", s.client))
	if err != nil {
		return "", err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return "", err
	}
	said, err := io.ReadAll(c)
	return string(said), err
}

// Follower returns a server that does not lead.
func (e *Ensemble) Follower(ctx context.Context) (int, error) {
	for i, s := range e.servers {
		said, err := s.says(ctx)
		if err != nil {
			return 0, err
		}
		if strings.Contains(said, "Mode: follower") {
			return i, nil
		}
	}
	return 0, errors.New("zktest: no server follows another one")
}

// Endpoints returns the addresses of the servers as host:port.
func (e *Ensemble) Endpoints() []string {
	var all []string
	for _, s := range e.servers {
		port := s.client
		if e.secure {
			port = s.secure
		}
		all = append(all, fmt.Sprint("127.0.0.1:", port))
	}
	return all
}

// PIDs returns the process ids of the servers, which all run.
func (e *Ensemble) PIDs() []int {
	var all []int
	for _, s := range e.servers {
		all = append(all, s.process.PID())
	}
	return all
}

// Kill kills a server, which can be restarted.
func (e *Ensemble) Kill(i int) error {
	p := e.servers[i].process
	if p == nil {
		return nil
	}
	e.servers[i].process = nil
	return p.End(syscall.SIGKILL)
}

// Restart starts a server that was killed on its data, and returns when it answers.
func (e *Ensemble) Restart(i int) error {
	if err := e.launch(i); err != nil {
		return err
	}
	return e.await(i)
}

// Pause stops a server until Resume, as a machine that hangs.
func (e *Ensemble) Pause(i int) error {
	return freeze.Stop(e.servers[i].process.PID())
}

// Resume lets a server go on.
func (e *Ensemble) Resume(i int) error {
	return freeze.Continue(e.servers[i].process.PID())
}

// Keep copies the data of all servers, as a backup. They are restarted for that.
func (e *Ensemble) Keep() error {
	return e.replace(func(data, backup string) error { return e.group.Run("cp", "-a", data, backup) })
}

// GoBack replaces all data by the copy that Keep has made. It can be called again.
func (e *Ensemble) GoBack() error {
	return e.replace(func(data, backup string) error {
		return errors.Join(os.RemoveAll(data), e.group.Run("cp", "-a", backup, data))
	})
}

// Lose removes all data: the ensemble starts empty.
func (e *Ensemble) Lose() error {
	return e.replace(func(data, _ string) error { return os.RemoveAll(filepath.Join(data, "version-2")) })
}

// replace does something with the data of each server and with where its backup is, while no server runs.
func (e *Ensemble) replace(with func(data, backup string) error) error {
	var failed error
	for i := range e.servers {
		failed = errors.Join(failed, e.Kill(i))
	}
	for i := range e.servers {
		if failed == nil {
			failed = errors.Join(with(e.data(i), e.data(i)+".backup"), e.launch(i))
		}
	}
	for i := range e.servers {
		if failed == nil {
			failed = e.await(i)
		}
	}
	return failed
}

// Requests returns how many requests the first server has been sent since it was started.
func (e *Ensemble) Requests() (int64, error) {
	c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", e.servers[0].client))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return 0, err
	}
	said, err := io.ReadAll(c)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(said), "Received: ")
	number, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseInt(number, 10, 64)
}

// Close ends all servers and removes their data.
func (e *Ensemble) Close() error {
	var failed error
	for i := range e.servers {
		failed = errors.Join(failed, e.Kill(i))
	}
	return errors.Join(failed, e.group.Close())
}
