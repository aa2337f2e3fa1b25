// Package counter is a counter without hardware: terminald as its own process, with a
// scanner and a printer on pseudo terminals. The demonstration and the daemon's tests
// share it. Start at Open.
package counter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"grattoir/device/control"
	"grattoir/device/sim"
)

const patience = 30 * time.Second // for one answer of the machine, however busy

// Counter is one counter. Its folder holds terminald.toml, which Open expects there
// and which names the devices "scanner" and "printer" and the socket "terminald.sock".
type Counter struct {
	Dir    string
	Glass  *sim.Scanner
	Paper  *sim.Printer
	Client *control.Client
	Page   string // address of the page, known after Start

	// Within is a command that Start puts before the program, as for a namespace of its
	// own; it must become the program by exec.
	Within []string

	program string
	daemon  *exec.Cmd
	ended   chan error
}

// Open makes the devices. Start starts the program.
func Open(dir, program string, paper sim.PrinterOptions) (*Counter, error) {
	c := &Counter{Dir: dir, program: program, Client: control.NewClient(filepath.Join(dir, "terminald.sock"))}
	var err error
	if c.Glass, err = sim.NewScanner(filepath.Join(dir, "scanner")); err != nil {
		return nil, err
	}
	if c.Paper, err = sim.NewPrinter(filepath.Join(dir, "printer"), paper); err != nil {
		return nil, errors.Join(err, c.Glass.Close())
	}
	return c, nil
}

// Start starts terminald, with env added to its environment, and waits until its
// devices are ready.
func (c *Counter) Start(ctx context.Context, env ...string) error {
	log, err := os.OpenFile(c.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := append(slices.Clone(c.Within), c.program, "--config", filepath.Join(c.Dir, "terminald.toml"))
	c.daemon = exec.Command(command[0], command[1:]...)
	c.daemon.Stdout, c.daemon.Stderr = log, log
	c.daemon.Env = append(os.Environ(), env...)
	c.daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} // Ctrl-C is ours; it never outlives us
	if err := c.daemon.Start(); err != nil {
		return err
	}
	c.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan error) { ended <- cmd.Wait() }(c.daemon, c.ended)

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if st, err := c.Client.Status(ctx); err == nil && st.Scanner == nil && st.Printer == nil && c.Glass.WaitOpen(ctx) == nil {
			c.Page = st.Page
			return nil
		}
		select {
		case err := <-c.ended:
			return c.Trouble(err)
		case <-ctx.Done():
			return fmt.Errorf("terminald was not ready in time; its last words:\n%s", tail(c.LogPath()))
		case <-tick.C:
		}
	}
}

// LogPath is where terminald's log is collected over all its runs.
func (c *Counter) LogPath() string { return filepath.Join(c.Dir, "terminald.log") }

// Ended gives the end of the running terminald; whoever takes it words it with Trouble.
func (c *Counter) Ended() <-chan error { return c.ended }

// Wait waits until terminald has ended by itself.
func (c *Counter) Wait(ctx context.Context) error {
	select {
	case <-c.ended:
		c.daemon = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("terminald has not ended: %w", ctx.Err())
	}
}

// Trouble words an end of terminald that nobody asked for.
func (c *Counter) Trouble(err error) error {
	c.daemon = nil
	return fmt.Errorf("terminald ended: %w; its last words:\n%s", err, tail(c.LogPath()))
}

func tail(path string) string {
	text, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// Kill ends terminald as a power cut does.
func (c *Counter) Kill() error {
	if err := c.daemon.Process.Kill(); err != nil {
		return err
	}
	<-c.ended
	c.daemon = nil
	return nil
}

// Crash ends terminald at once, wherever it is, also when it has ended already.
func (c *Counter) Crash() {
	if c.daemon != nil {
		_ = c.daemon.Process.Kill()
		<-c.ended
		c.daemon = nil
	}
}

// Stop ends terminald in order.
func (c *Counter) Stop() error {
	if c.daemon == nil {
		return nil
	}
	if err := c.daemon.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := <-c.ended
	c.daemon = nil
	if err != nil {
		return fmt.Errorf("terminald did not stop in order: %w; its last words:\n%s", err, tail(c.LogPath()))
	}
	return nil
}

// Close ends everything at once.
func (c *Counter) Close() {
	c.Crash()
	_ = c.Glass.Close()
	_ = c.Paper.Close()
}

// Scan puts a code under the scanner and waits for the verdict on the counter.
func (c *Counter) Scan(ctx context.Context, code string) (control.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before, err := c.Client.View(ctx)
	if err != nil {
		return before, err
	}
	if err := c.Glass.Scan(code); err != nil {
		return before, err
	}
	for {
		now, err := c.Client.Next(ctx, before)
		if err != nil || now.ID != before.ID {
			return now, err
		}
		before = now
	}
}
