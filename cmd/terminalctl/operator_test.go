package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// operatorConfig makes a terminal with the manager anne and the clerk 07.
func operatorConfig(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "terminald.toml")
	must(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
	must(t, os.WriteFile(path, []byte(`name = "T-1"
data = "data"
socket = "terminald.sock"
keys = ["lottery.pub"]
stand_alone = true
shop = { name = "Tabac" }
scanner = { path = "/dev/null" }
printer = { path = "/dev/zero" }
policy = { version = "1", currency = "EUR", shop_limit_minor = 30000, claim_days = 30 }
`), 0o600))
	for _, args := range [][]string{
		{"27192\n", "add", "anne", "--name", "Anne", "--role", "manager"},
		{"27192\n9264\n", "add", "07", "--name", "Luc", "--role", "clerk", "--by", "anne"},
	} {
		cmd := operatorCmd(t, path, append(args[1:], "--pin-file", "-")...)
		cmd.Stdin = strings.NewReader(args[0])
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// operatorCmd is terminalctl operator: the test binary itself, by its other name.
func operatorCmd(t *testing.T, config string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return &exec.Cmd{Path: self, Args: append(append([]string{"terminalctl", "operator"}, args...), "--config", config)}
}

// typist sits at a terminal, types what is asked for when it is asked, and sees the screen.
type typist struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	slave  *os.File
	asked  io.Reader
	said   strings.Builder
	mu     sync.Mutex
	screen bytes.Buffer
	ended  chan struct{} // the screen was read to its end
}

func sit(t *testing.T, cmd *exec.Cmd) *typist {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetUint32(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	p := &typist{t: t, cmd: cmd, master: master, slave: slave, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		buf := make([]byte, 256)
		for {
			n, err := master.Read(buf)
			p.mu.Lock()
			p.screen.Write(buf[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	cmd.Stdin = slave
	p.asked, err = cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	return p
}

// until reads what the command says up to the question.
func (p *typist) until(question string) {
	p.t.Helper()
	one := make([]byte, 1)
	for !strings.HasSuffix(p.said.String(), question) {
		if _, err := p.asked.Read(one); err != nil {
			p.t.Fatalf("%q was never asked: %s", question, p.said.String())
		}
		p.said.Write(one)
	}
}

func (p *typist) types(question, digits string) {
	p.t.Helper()
	p.until(question)
	_, err := p.master.WriteString(digits + "\n")
	must(p.t, err)
}

// leave waits for the command's end, looks whether the terminal shows again what is
// typed, and gives everything the screen has shown of it.
func (p *typist) leave() (screen, said string, code int) {
	p.t.Helper()
	rest, err := io.ReadAll(p.asked)
	must(p.t, err)
	_ = p.cmd.Wait()
	t, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
	if err != nil || t.Lflag&unix.ECHO == 0 {
		p.t.Errorf("the terminal was left dark: %v", err)
	}
	must(p.t, p.slave.Close())
	<-p.ended // the last slave is closed: the master reads to its end
	must(p.t, p.master.Close())
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.String(), p.said.String() + string(rest), p.cmd.ProcessState.ExitCode()
}

func TestPINsAreTypedUnseen(t *testing.T) {
	config := operatorConfig(t)
	p := sit(t, operatorCmd(t, config, "pin", "07"))
	p.types("PIN of 07: ", "9264")
	p.types("New PIN of 07: ", "83052")
	p.types("New PIN of 07, again: ", "83052")
	if screen, said, code := p.leave(); code != 0 || strings.ContainsAny(screen+said, "923586") {
		t.Errorf("exit %d, screen %q, said %q", code, screen, said)
	}
	p = sit(t, operatorCmd(t, config, "pin", "07"))
	p.types("PIN of 07: ", "83052")
	p.types("New PIN of 07: ", "61803")
	p.types("New PIN of 07, again: ", "61804")
	if _, said, code := p.leave(); code != 2 || !strings.Contains(said, "the two are not the same") {
		t.Errorf("exit %d, said %q", code, said)
	}
}

func TestBrokenOffPromptLeavesTheTerminalAsItWas(t *testing.T) {
	config := operatorConfig(t)
	p := sit(t, operatorCmd(t, config, "pin", "07"))
	p.until("PIN of 07: ")
	must(t, p.cmd.Process.Signal(os.Interrupt))
	if _, _, code := p.leave(); code != 1 {
		t.Errorf("exit %d", code)
	}
}

// TestOperatorCommandsWaitForTheDaemon: while another process has the file, nothing is done.
func TestOperatorCommandsWaitForTheDaemon(t *testing.T) {
	config := operatorConfig(t)
	holder := sit(t, operatorCmd(t, config, "pin", "07"))
	holder.until("PIN of 07: ") // it has the file open
	out, err := operatorCmd(t, config, "list").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "if terminald is running, stop it first") {
		t.Errorf("%v\n%s", err, out)
	}
	must(t, holder.cmd.Process.Signal(os.Interrupt))
	holder.leave()
}
