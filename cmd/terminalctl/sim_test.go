package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"grattoir/cmd/internal/cli"
)

// simRun is terminalctl sim at work, its standard input a pipe or a terminal.
type simRun struct {
	t     *testing.T
	dir   string
	typed io.Writer
	out   *bufio.Reader
	ended chan error
}

// startSim runs sim in this test's process, on plain pipes.
func startSim(t *testing.T, args ...string) *simRun {
	t.Helper()
	dir := t.TempDir()
	in, typed := io.Pipe()
	shown, out := io.Pipe()
	cmd := command()
	cmd.SetArgs(append([]string{"sim", "--dir", dir}, args...))
	cmd.SetIn(in)
	cmd.SetOut(out)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	r := &simRun{t: t, dir: dir, typed: typed, out: bufio.NewReader(shown), ended: make(chan error, 1)}
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = out.CloseWithError(io.EOF)
		r.ended <- err
	}()
	t.Cleanup(func() { cancel(); _ = shown.Close(); <-r.ended })
	return r
}

func (r *simRun) typeLine(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.typed, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// sees reads what is shown until a line has the text.
func (r *simRun) sees(text string) {
	r.t.Helper()
	var all strings.Builder
	for {
		line, err := r.out.ReadString('\n')
		all.WriteString(line)
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			r.t.Fatalf("never shown: %q (%v); shown was\n%s", text, err, all.String())
		}
	}
}

// port opens a device as a driver does.
func (r *simRun) port(name string) *os.File {
	r.t.Helper()
	f, err := os.OpenFile(filepath.Join(r.dir, name), os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { f.Close() })
	if err := f.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	return f
}

const slipBytes = "\x1b@\x1bt\x13Gagn\x82 20 \xd5\n\x1dV\x42\x00"

func TestSimScansTypedCodesShowsSlipsAndDrawsThem(t *testing.T) {
	r := startSim(t, "--png")
	r.sees("printer ")
	glass, paper := r.port("scanner"), r.port("printer")
	r.typeLine(":split 2 1ms")
	r.typeLine("12345")
	got := make([]byte, 6)
	if _, err := io.ReadFull(glass, got); err != nil || string(got) != "12345\r" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := paper.WriteString(slipBytes); err != nil {
		t.Fatal(err)
	}
	r.sees("Gagné 20 €")
	if _, err := paper.WriteString("\x1bp\x01\x32\xff"); err != nil {
		t.Fatal(err)
	}
	r.sees("the drawer opens: pin 5, 100ms")
	r.typeLine(":show")
	r.sees("printer: in order")
	r.typeLine(":png " + filepath.Join(r.dir, "named.png"))
	r.typeLine(":paper out")
	r.typeLine(":show")
	r.sees("printer: paper out")
	for _, name := range []string{"slip-1.png", "named.png"} {
		text, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(bytes.NewReader(text))
		if err != nil || img.Bounds().Dx() != 42*12 {
			t.Errorf("%s: %v, %v", name, err, img)
		}
	}
	r.typeLine(":quit")
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	r.ended <- nil
}

func TestSimPlaysAScriptWithTicketsAndEnds(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tickets := write("tickets.csv", "code,prize_minor\n111,0\n222,2000\n")
	good := write("good.sim", "tickets 2\nprinter paper out\n")
	r := startSim(t, "--script", good, "--tickets", tickets, "--pace", "1ms", "--end")
	r.sees("printer paper out")
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	r.ended <- nil
	for name, c := range map[string]struct {
		script, want string
		code         int
	}{
		"a line that is wrong":  {"scan 1\nfly\n", ":2:", cli.Usage},
		"more tickets than are": {"tickets 3\n", ":1: ticket 3", cli.Failed},
		"a program to kill":     {"\ndaemon kill\n", ":2: daemon kill", cli.Failed},
	} {
		r := startSim(t, "--script", write("bad.sim", c.script), "--tickets", tickets, "--pace", "1ms", "--end")
		go func() { _, _ = io.Copy(io.Discard, r.out) }()
		err := <-r.ended
		r.ended <- nil
		code := cli.Failed
		if e, ok := errors.AsType[*cli.Error](err); ok {
			code = e.Code
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || code != c.code {
			t.Errorf("%s: %v, status %d", name, err, code)
		}
	}
}

// TestSimKeysActWhileACodeIsTyped runs the program on a terminal of its own.
func TestSimKeysActWhileACodeIsTyped(t *testing.T) {
	master, slave := terminalPair(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "terminalctl") // under this name the tests are the program
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "sim", "--dir", dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &simRun{t: t, dir: dir, typed: master, out: bufio.NewReader(master)}
	r.until("scan> ")
	glass := r.port("scanner")
	r.send("12\x0f34\r")
	r.until("paper is out")
	r.until("[printer paper out] scan> ")
	got := make([]byte, 5)
	if _, err := io.ReadFull(glass, got); err != nil || string(got) != "1234\r" {
		t.Errorf("%q, %v", got, err)
	}
	r.send("\x0f")
	r.until("paper is in")
	r.send("\x07")
	r.until("[scanner unplugged] scan> ")
	r.send("\x04")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil || mode.Lflag&unix.ECHO == 0 {
		t.Errorf("the terminal is left raw (%v)", err)
	}
}

func (r *simRun) send(keys string) {
	r.t.Helper()
	if _, err := io.WriteString(r.typed, keys); err != nil {
		r.t.Fatal(err)
	}
}

// until reads the terminal until it has shown the text.
func (r *simRun) until(text string) {
	r.t.Helper()
	var all []byte
	for !bytes.Contains(all, []byte(text)) {
		c, err := r.out.ReadByte()
		if err != nil {
			r.t.Fatalf("never shown: %q (%v); shown was\n%q", text, err, all)
		}
		all = append(all, c)
	}
}

// terminalPair is a cooked terminal.
func terminalPair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "terminal")
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	if err := master.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

func TestSimulatorSaysOnceWhatThePrinterDoesNotUnderstandAThousandTimes(t *testing.T) {
	zero, other := errors.New("00"), errors.New("1B")
	if got, want := folded([]error{zero, zero, zero, other, zero}), []string{"00 (3 times)", "1B", "00"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := folded(nil); len(got) > 0 {
		t.Errorf("%q of nothing", got)
	}
}
