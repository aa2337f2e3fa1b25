// Package pgtest gives tests and measurements a PostgreSQL of their own: Debian's
// programs, a data folder under the system's for temporary files, a Unix socket inside it
// and no port. One server serves all of a process and ends with it. It is no part of any
// program of the product. Start at Main and Database.
package pgtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrMissing means that PostgreSQL's programs are not installed.
var ErrMissing = errors.New("PostgreSQL's server is not installed (make deps, or apt-get install postgresql)")

const (
	startWithin = time.Minute
	ready       = "database system is ready to accept connections"
	superuser   = "grattoir"
)

// Server is a running PostgreSQL.
type Server struct {
	dir   string
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
	count atomic.Int64
}

// Start makes a data folder and runs a server on it, with settings as "fsync=off", as
// another user where this process is root's: PostgreSQL refuses to run as root. The
// errors include ErrMissing. Stop it.
func Start(settings ...string) (_ *Server, err error) {
	programs, err := findPrograms()
	if err != nil {
		return nil, err
	}
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "grattoir-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, ended: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if who != nil {
		if err := os.Chown(dir, int(who.Uid), int(who.Gid)); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(programs, "initdb"), "--pgdata", data, "--username", superuser, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: who}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, lastLines(out))
	}
	args := []string{"-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "logging_collector=off", "-c", "log_destination=stderr"}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	s.cmd = exec.Command(filepath.Join(programs, "postgres"), args...)
	// Interrupted is a fast shutdown, also when this process is killed.
	s.cmd.Dir, s.cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: who, Pdeathsig: syscall.SIGINT}
	if err := s.run(); err != nil {
		return nil, err
	}
	return s, nil
}

// run starts the server and waits until it accepts connections.
func (s *Server) run() error {
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return err
	}
	started := make(chan error)
	go func() {
		// Pdeathsig goes by the thread that started the process: it is kept.
		runtime.LockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			<-s.ended
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	up := make(chan string, 1)
	go func() {
		var said []string
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if said = append(said, lines.Text()); strings.Contains(lines.Text(), ready) {
				up <- ""
				break
			}
		}
		_, _ = io.Copy(io.Discard, stderr) // else a full pipe stops it
		err := s.cmd.Wait()
		up <- fmt.Sprintf("%v: %s", err, lastLines([]byte(strings.Join(said, "\n"))))
		close(s.ended)
	}()
	timer := time.NewTimer(startWithin)
	defer timer.Stop()
	select {
	case text := <-up:
		if text != "" {
			return fmt.Errorf("postgres ended at its start: %s", text)
		}
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("postgres was not ready within %v", startWithin), s.cmd.Process.Kill())
	}
}

// Stop shuts the server down and removes its folder.
func (s *Server) Stop() error {
	err := s.cmd.Process.Signal(syscall.SIGINT)
	<-s.ended
	return errors.Join(err, os.RemoveAll(s.dir))
}

// clockTick is the unit of /proc's processor times, proc(5); Linux has it fixed.
const clockTick = 10 * time.Millisecond

// ProcessorTime is what the server's processes that run, and those that ended, have used
// of the processor.
func (s *Server) ProcessorTime() (time.Duration, error) {
	pid := s.cmd.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	var ticks int64
	for _, p := range append(strings.Fields(string(children)), strconv.Itoa(pid)) {
		text, err := os.ReadFile("/proc/" + p + "/stat")
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just ended, and counts with its parent
		}
		if err != nil {
			return 0, err
		}
		_, after, _ := strings.Cut(string(text), ") ") // behind the name, from the third field on
		fields := strings.Fields(after)
		if len(fields) < 15 {
			return 0, fmt.Errorf("/proc/%s/stat has %d fields", p, len(fields)+2)
		}
		for _, f := range fields[11:15] { // utime, stime, cutime, cstime
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, err
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * clockTick, nil
}

// Schema makes an empty schema, as good as a database of its own, and gives its URL.
func (s *Server) Schema(ctx context.Context) (database string, err error) {
	name := "s" + strconv.FormatInt(s.count.Add(1), 10)
	return s.url(name), s.exec(ctx, s.url("public"), "CREATE SCHEMA "+name)
}

func (s *Server) url(schema string) string {
	return "postgres:///postgres?" + url.Values{"host": {s.dir}, "user": {superuser}, "search_path": {schema}}.Encode()
}

func (s *Server) exec(ctx context.Context, database, statements string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol)
	return errors.Join(err, conn.Close(ctx))
}

// Shared is the server of one test binary, started when the first test asks for it.
type Shared struct {
	mu     sync.Mutex
	server *Server
	err    error
	free   []string // databases that a test has left, emptied
}

// Main runs the tests and stops the server, where one was started. TestMain exits with
// what it gives.
func (s *Shared) Main(m interface{ Run() int }) int {
	code := m.Run()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		if err := s.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			return max(code, 1)
		}
	}
	return code
}

// Fresh gives a test a new, empty database of its own. Without PostgreSQL the test fails
// in CI and is skipped elsewhere.
func (s *Shared) Fresh(t testing.TB) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fresh(t)
}

func (s *Shared) fresh(t testing.TB) string {
	t.Helper()
	if s.server == nil && s.err == nil {
		s.server, s.err = Start("fsync=off", "full_page_writes=off")
	}
	if errors.Is(s.err, ErrMissing) && os.Getenv("CI") == "" {
		t.Skip("SKIPPED: ", s.err)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	database, err := s.server.Schema(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return database
}

// Database gives a test an empty database, with settings of its sessions: a new one, or
// one that another test has left, with central's tables and no rows. The test leaves the
// tables as they are. Without PostgreSQL it fails in CI and is skipped elsewhere.
func (s *Shared) Database(t testing.TB, settings map[string]string) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var database string
	if n := len(s.free); n > 0 {
		database, s.free = s.free[n-1], s.free[:n-1]
	} else {
		database = s.fresh(t)
	}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.server.exec(context.Background(), database, empty); err != nil {
			t.Error("empty the database: ", err)
			return
		}
		s.free = append(s.free, database)
	})
	with := url.Values{}
	for name, value := range settings {
		with.Set(name, value)
	}
	return strings.TrimSuffix(database+"&"+with.Encode(), "&")
}

// empty removes all rows but the versions of the schema.
const empty = `DO $$
DECLARE t text;
BEGIN
	FOR t IN SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_name NOT IN ('goose_db_version', 'counters') LOOP
		EXECUTE 'DELETE FROM ' || quote_ident(t);
	END LOOP;
	IF to_regclass('counters') IS NOT NULL THEN UPDATE counters SET value = 0; END IF;
END $$`

// findPrograms is the folder of initdb and postgres: Debian keeps them off PATH, one
// folder a version.
// Program is the path of one of PostgreSQL's programs, as "pgbench". The errors include ErrMissing.
func Program(name string) (string, error) {
	dir, err := findPrograms()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: %s", ErrMissing, name)
	}
	return path, nil
}

func findPrograms() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", ErrMissing
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	return filepath.Dir(path), nil
}

func version(program string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program)))) // 0 comes first
	return n
}

// unprivileged is who the server runs as, nil for this process's own user.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("a user to run PostgreSQL as: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

func lastLines(text []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-5):], []byte("\n"))
}
