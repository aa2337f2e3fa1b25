package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"grattoir/device/sim"
	"grattoir/firmware/image"
)

// machine is a terminal under emulation: QEMU's board virt, a card that is a file, a scanner
// and a printer behind USB serial adapters, and the technician's login.
type machine struct {
	t       *testing.T
	dir     string
	card    string
	scanner *sim.Scanner
	printer *sim.Printer
	port    int
	qemu    *exec.Cmd
	done    chan error
	qmp     net.Conn
	answers *json.Decoder
}

// start switches the machine on.
func (m *machine) start(stick string) {
	m.t.Helper()
	console := filepath.Join(m.dir, "console.log")
	control := filepath.Join(m.dir, "qmp")
	args := []string{"-machine", "virt", "-cpu", "cortex-a53", "-smp", "2", "-m", "1024", "-accel", "tcg,thread=multi", "-display", "none", "-monitor", "none",
		"-serial", "file:" + console, "-qmp", "unix:" + control + ",server=on,wait=off", "-bios", "/usr/lib/u-boot/qemu_arm64/u-boot.bin",
		"-drive", "if=none,format=raw,id=card,file=" + m.card, "-device", "virtio-blk-device,drive=card",
		"-netdev", "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:" + strconv.Itoa(m.port) + "-:22", "-device", "virtio-net-device,netdev=net",
		"-device", "virtio-rng-device", "-device", "i6300esb", "-watchdog-action", "reset", "-device", "qemu-xhci",
		"-chardev", "serial,id=scanner,path=" + m.scanner.Path(), "-device", "usb-serial,chardev=scanner,serial=grattoir-scanner,id=usb-scanner",
		"-chardev", "serial,id=printer,path=" + m.printer.Path(), "-device", "usb-serial,chardev=printer,serial=grattoir-printer,id=usb-printer",
		"-drive", "if=none,format=raw,id=stick,readonly=on,file=" + stick, "-device", "usb-storage,drive=stick"}
	m.qemu = exec.Command("qemu-system-aarch64", args...)
	out, err := os.Create(filepath.Join(m.dir, "qemu.log"))
	if err != nil {
		m.t.Fatal(err)
	}
	m.qemu.Stdout, m.qemu.Stderr = out, out
	if err := m.qemu.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.done = make(chan error, 1)
	go func() { m.done <- errors.Join(m.qemu.Wait(), out.Close()) }()
	m.t.Cleanup(func() {
		if m.t.Failed() {
			out, err := m.ssh(time.Minute, nil, "ls -l /dev/grattoir; terminalctl status --json; rauc status; journalctl -b -n 80 --no-pager")
			m.t.Logf("the terminal, at the end: %s\n%v", out, err)
		}
		if m.qmp != nil {
			m.qmp.Close()
		}
		m.qemu.Process.Kill()
		<-m.done
		if m.t.Failed() {
			m.t.Logf("the end of the console:\n%s", tail(console))
		}
	})
	m.await(20*time.Second, "QEMU's control socket", func() bool {
		m.qmp, err = net.Dial("unix", control)
		return err == nil
	})
	m.answers = json.NewDecoder(m.qmp)
	m.answer(30 * time.Second) // its greeting
	m.control("qmp_capabilities", nil)
}

func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-6000):])
}

// control gives QEMU a command, as pulling a plug.
func (m *machine) control(name string, arguments map[string]any) {
	m.t.Helper()
	if arguments == nil {
		arguments = map[string]any{}
	}
	if err := json.NewEncoder(m.qmp).Encode(map[string]any{"execute": name, "arguments": arguments}); err != nil {
		m.t.Fatal(err)
	}
	for {
		got := m.answer(30 * time.Second)
		if got["error"] != nil {
			m.t.Fatalf("qemu: %s: %v", name, got["error"])
		}
		if _, is := got["return"]; is {
			return
		}
	}
}

// answer is the next thing that QEMU says, events among them.
func (m *machine) answer(most time.Duration) map[string]any {
	m.t.Helper()
	var got map[string]any
	if err := errors.Join(m.qmp.SetReadDeadline(time.Now().Add(most)), m.answers.Decode(&got)); err != nil {
		m.t.Fatalf("qemu: %v", err)
	}
	return got
}

// event waits until QEMU reports one.
func (m *machine) event(name string) {
	m.t.Helper()
	for m.answer(4 * time.Minute)["event"] != name {
	}
}

// await asks until the answer is yes.
func (m *machine) await(most time.Duration, what string, yes func() bool) {
	m.t.Helper()
	begun := time.Now()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		if time.Since(begun) > most {
			m.t.Fatalf("%s: not within %v", what, most)
		}
		select {
		case err := <-m.done:
			m.done <- err
			m.t.Fatalf("%s: the emulator has ended: %v\n%s", what, err, tail(filepath.Join(m.dir, "qemu.log")))
		case <-tick.C:
		}
	}
	m.t.Logf("%s after %.0f s", what, time.Since(begun).Seconds())
}

// ssh runs a command as the technician, with something on its standard input.
func (m *machine) ssh(most time.Duration, input []byte, command string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ssh", "-i", filepath.Join(m.dir, "technician"), "-p", strconv.Itoa(m.port), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile="+filepath.Join(m.dir, "known"),
		"-o", "LogLevel=ERROR", "-o", "ConnectTimeout=10", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-F", "none", "root@127.0.0.1", command)
	cmd.Stdin = bytes.NewReader(input)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, io.MultiWriter(&said)
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", command, err, strings.TrimSpace(said.String()+"\n"+out.String()))
	}
	return out.String(), err
}

// do runs a command that must succeed.
func (m *machine) do(command string) string {
	m.t.Helper()
	out, err := m.ssh(2*time.Minute, nil, command)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// put writes a file of the terminal.
func (m *machine) put(path string, data []byte) {
	m.t.Helper()
	if _, err := m.ssh(2*time.Minute, data, "cat > "+path); err != nil {
		m.t.Fatal(err)
	}
}

// fails runs a command that must fail, and returns what it said.
func (m *machine) fails(command string) string {
	m.t.Helper()
	out, err := m.ssh(3*time.Minute, nil, command)
	if err == nil {
		m.t.Fatalf("%s: it succeeded: %s", command, out)
	}
	return err.Error()
}

// running waits until the machine has started the given release and its start was found good.
func (m *machine) running(most time.Duration, version, notBoot string) (boot string) {
	m.t.Helper()
	m.await(most, "release "+version+" up and marked good", func() bool {
		out, err := m.ssh(40*time.Second, nil, "cat /proc/sys/kernel/random/boot_id; grep version= /usr/lib/grattoir/release; systemctl is-active grattoir-health.service")
		lines := strings.Fields(out)
		if err != nil || len(lines) != 3 || lines[0] == notBoot || lines[1] != "version="+version || lines[2] != "active" {
			return false
		}
		boot = lines[0]
		return true
	})
	return boot
}

// state is the card's boot state, read from the file behind it.
func (m *machine) state() image.BootState {
	m.t.Helper()
	f, err := os.Open(m.card)
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	sector := make([]byte, image.BootStateSize)
	if _, err := f.ReadAt(sector, image.BootStateOffset); err != nil {
		m.t.Fatal(err)
	}
	s, err := image.ParseBootState(sector)
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// freePort is a port of the loopback that nobody has.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
