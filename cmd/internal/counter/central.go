package counter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Central is central as its own process. Its addresses are chosen once, so that it
// comes back where it was.
type Central struct {
	Dir     string // of its data; its log is Dir.log
	API     string // host:port of the terminals' API
	Console string // host:port of the dashboard

	program string
	server  *exec.Cmd
	ended   chan error
}

// NewCentral makes a central that is not started yet.
func NewCentral(dir, program, api, console string) *Central {
	return &Central{Dir: dir, API: FreeAddress(api), Console: FreeAddress(console), program: program}
}

// FreeAddress is the wanted one, or one with a free port when another program has it.
func FreeAddress(wanted string) string {
	for _, address := range []string{wanted, "127.0.0.1:0"} {
		if l, err := net.Listen("tcp", address); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	return wanted
}

// URL is what terminals are given.
func (c *Central) URL() string { return "https://" + c.API }

// Start starts central serve and waits until its console answers.
func (c *Central) Start(ctx context.Context) error {
	log, err := os.OpenFile(c.Dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	c.server = exec.Command(c.program, "serve", "--data", c.Dir, "--listen", c.API, "--console", c.Console)
	c.server.Stdout, c.server.Stderr = log, log
	c.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} // Ctrl-C is ours; it never outlives us
	if err := c.server.Start(); err != nil {
		return err
	}
	c.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan error) { ended <- cmd.Wait() }(c.server, c.ended)
	return c.Until(ctx, "central was not ready in time", func() bool {
		res, err := http.Get("http://" + c.Console + "/sign-in") // every other page wants a user
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// Until waits for what another process does, and fails when central ends meanwhile.
func (c *Central) Until(ctx context.Context, otherwise string, what func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !what() {
		select {
		case err := <-c.ended:
			return c.Trouble(err)
		case <-ctx.Done():
			return errors.New(otherwise)
		case <-tick.C:
		}
	}
	return nil
}

// Ended gives the end of the running central; whoever takes it words it with Trouble.
func (c *Central) Ended() <-chan error { return c.ended }

// Trouble words an end of central that nobody asked for.
func (c *Central) Trouble(err error) error {
	c.server = nil
	return fmt.Errorf("central ended: %w; its last words:\n%s", err, tail(filepath.Clean(c.Dir)+".log"))
}

// Kill ends central as a power cut does.
func (c *Central) Kill() error {
	if err := c.server.Process.Kill(); err != nil {
		return err
	}
	<-c.ended
	c.server = nil
	return nil
}

// Stop ends central in order.
func (c *Central) Stop() error {
	if c.server == nil {
		return nil
	}
	if err := c.server.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := <-c.ended
	c.server = nil
	return err
}

// Close ends it at once.
func (c *Central) Close() {
	if c.server != nil {
		_ = c.server.Process.Kill()
		<-c.ended
		c.server = nil
	}
}
