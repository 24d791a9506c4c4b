package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresSettings are those that are not PostgreSQL's defaults. What makes a commit
// durable (fsync, synchronous_commit, full_page_writes) is on by default and stays on.
var postgresSettings = []string{
	"shared_buffers=1GB",       // 128MB is for machines with little memory
	"max_wal_size=4GB",         // no checkpoint because of size within a measurement
	"checkpoint_timeout=15min", // nor because of time
	"wal_compression=lz4",      // full pages after a checkpoint are most of the WAL
	"max_connections=400",
	"listen_addresses=", // the socket only
	"log_min_messages=fatal",
}

const postgresDurability = "every insert and every acknowledgement is a commit, and fsynced (fsync and synchronous_commit on, grouped by PostgreSQL)"

func postgresSettingsText() string {
	return "shared_buffers 1GB, max_wal_size 4GB, wal_compression lz4, unix socket"
}

// postgresBin returns the folder of PostgreSQL's programs, the newest that is installed.
func postgresBin() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // only fails for a bad pattern
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	if len(found) > 0 {
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errors.New("PostgreSQL is not installed")
}

// postgresUser returns the user to run PostgreSQL as, which refuses to run as root; nil is the current
// user.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

// postgres is a server of our own with an empty database.
type postgres struct {
	server  *process
	sockets string        // folder
	pool    *pgxpool.Pool // for inserts
	workers *pgxpool.Pool // for workers; the same as pool unless they are apart
}

// startPostgres starts a server on a copy of a cluster that is made once, and a pool of
// at most so many connections; 0 is the pool's own default.
func startPostgres(ctx context.Context, e env, connections int32) (*postgres, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	user, err := postgresUser()
	if err != nil {
		return nil, err
	}
	asUser := func(c *exec.Cmd) { c.Dir, c.SysProcAttr.Credential = "/", user }
	model := filepath.Join(e.pool, "postgres")
	if _, err := os.Stat(model); err != nil {
		if err := initPostgres(bin, model, user); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(e.dir, "data")
	if out, err := exec.Command("cp", "-a", model, data).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy the cluster: %w: %s", err, out)
	}
	p := &postgres{sockets: data} // inside, since it belongs to the right user
	args := []string{"-D", data, "-k", p.sockets}
	for _, s := range postgresSettings {
		args = append(args, "-c", s)
	}
	if p.server, err = startProcess(e.dir, asUser, filepath.Join(bin, "postgres"), args...); err != nil {
		return nil, err
	}
	p.server.bye = syscall.SIGQUIT // the data is not needed any more
	if p.pool, err = p.connect(ctx, connections); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.workers = p.pool
	if err := p.server.until(ctx, p.pool.Ping); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *postgres) url() string { return fmt.Sprintf("host=%s user=bench dbname=postgres", p.sockets) }

// connect returns a pool of at most so many connections; 0 is the pool's own default.
func (p *postgres) connect(ctx context.Context, connections int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(p.url())
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if connections > 0 {
		config.MaxConns = connections
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// apart gives the workers a pool of their own, so that workers and inserts do not wait for the
// connections of each other; 0 is a shared pool.
func (p *postgres) apart(ctx context.Context, connections int32) (err error) {
	if connections > 0 {
		p.workers, err = p.connect(ctx, connections)
	}
	return err
}

func initPostgres(bin, dir string, user *syscall.Credential) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if user != nil {
		if err := os.Chown(dir, int(user.Uid), int(user.Gid)); err != nil {
			return err
		}
	}
	c := exec.Command(filepath.Join(bin, "initdb"), "-D", dir, "-U", "bench", "--auth=trust", "--no-locale", "--encoding=UTF8", "--no-sync")
	c.Dir, c.SysProcAttr = "/", &syscall.SysProcAttr{Credential: user}
	if out, err := c.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("initdb: %w: %s", err, out), os.RemoveAll(dir))
	}
	return nil
}

// holds returns the result of a query for a boolean.
func (p *postgres) holds(ctx context.Context, query string) (found bool, err error) {
	err = p.pool.QueryRow(ctx, query).Scan(&found)
	return found, err
}

// version returns the version of the server.
func (p *postgres) version(ctx context.Context) (string, error) {
	var v string
	if err := p.pool.QueryRow(ctx, "SHOW server_version").Scan(&v); err != nil {
		return "", fmt.Errorf("ask PostgreSQL for its version: %w", err)
	}
	v, _, _ = strings.Cut(v, " ") // what follows is the distribution's
	return "PostgreSQL " + v, nil
}

func (p *postgres) close() error {
	if p.workers != nil && p.workers != p.pool {
		p.workers.Close()
	}
	if p.pool != nil {
		p.pool.Close()
	}
	return p.server.stop()
}
