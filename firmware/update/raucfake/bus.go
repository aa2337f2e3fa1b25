package raucfake

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	"grattoir/firmware/update"
)

const face = "de.pengutronix.rauc.Installer"

const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
`

// Bus starts a bus of its own in a folder, by Debian's dbus-daemon, and gives its address.
// Stop ends it.
func Bus(dir string) (address string, stop func(), err error) {
	config := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, busConfig, filepath.Join(dir, "bus")), 0o600); err != nil {
		return "", nil, err
	}
	c := exec.Command("dbus-daemon", "--config-file="+config, "--nofork", "--nopidfile", "--print-address=1")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return "", nil, fmt.Errorf("a bus for the test (package dbus-daemon): %w", err)
	}
	stop = func() { _ = c.Process.Kill(); _ = c.Wait() }
	line, err := bufio.NewReader(out).ReadString('\n') // it listens when it says so
	if err != nil {
		stop()
		return "", nil, err
	}
	return strings.TrimSpace(line), stop, nil
}

// Serve answers as RAUC on the bus at an address until the connection is closed.
func (m *Machine) Serve(address string) (close func() error, err error) {
	bus, err := dbus.Connect(address)
	if err != nil {
		return nil, err
	}
	s := &service{m: m, bus: bus}
	board := &prop.Prop{Value: m.Board, Emit: prop.EmitFalse}
	s.props, err = prop.Export(bus, "/", prop.Map{face: {"Operation": {Value: "idle", Emit: prop.EmitTrue}, "LastError": {Value: "", Emit: prop.EmitTrue},
		"Progress": {Value: progress{}, Emit: prop.EmitTrue}, "Compatible": board, "Variant": {Value: ""}, "BootSlot": {Value: "A"}}})
	if err == nil {
		err = bus.Export(s, "/", face)
	}
	if err == nil {
		var got dbus.RequestNameReply
		if got, err = bus.RequestName("de.pengutronix.rauc", dbus.NameFlagDoNotQueue); err == nil && got != dbus.RequestNameReplyPrimaryOwner {
			err = errors.New("another RAUC is on the bus")
		}
	}
	if err != nil {
		return nil, errors.Join(err, bus.Close())
	}
	return bus.Close, nil
}

type progress struct {
	Percent int32
	Message string
	Depth   int32
}

type service struct {
	m     *Machine
	bus   *dbus.Conn
	props *prop.Properties
}

// failed is an error as GLib sends RAUC's own.
func failed(err error) *dbus.Error {
	if err == nil {
		return nil
	}
	return dbus.NewError("org.gtk.GDBus.UnmappedGError.Quark._g_2dio_2derror_2dquark.Code30", []any{err.Error()})
}

// InstallBundle begins an installation and answers at once; Completed tells its end.
func (s *service) InstallBundle(path string, _ map[string]dbus.Variant) *dbus.Error {
	if busy, _ := s.m.Busy(context.Background()); busy {
		return failed(errors.New("already processing a different method"))
	}
	s.props.SetMust(face, "Operation", "installing")
	go func() {
		err := s.m.Install(context.Background(), path, func(n int) { s.props.SetMust(face, "Progress", progress{int32(n), "Updating slots", 1}) })
		result, text := int32(0), ""
		if err != nil {
			result, text = 1, err.Error()
		}
		s.props.SetMust(face, "LastError", text)
		s.props.SetMust(face, "Operation", "idle")
		_ = s.bus.Emit("/", face+".Completed", result) // a test that has ended hears nothing
	}()
	return nil
}

// Info, Mark and GetSlotStatus are RAUC's.
func (s *service) Info(path string) (compatible, version string, _ *dbus.Error) {
	compatible, version, err := s.m.Info(context.Background(), path)
	return compatible, version, failed(err)
}

func (s *service) Mark(state, slot string) (name, message string, _ *dbus.Error) {
	if err := s.m.Mark(context.Background(), slot, update.Mark(state)); err != nil {
		return "", "", failed(err)
	}
	return "rootfs", "marked slot " + slot + " as " + state, nil
}

type slotStatus struct {
	Name string
	Of   map[string]dbus.Variant
}

func (s *service) GetSlotStatus() ([]slotStatus, *dbus.Error) {
	var list []slotStatus
	slots, err := s.m.Slots(context.Background())
	for _, x := range slots {
		state, boot := "inactive", "bad"
		if x.Booted {
			state = "booted"
		}
		if x.Bootable {
			boot = "good"
		}
		of := map[string]dbus.Variant{}
		for key, text := range map[string]string{"class": "rootfs", "type": "ext4", "device": "/dev/" + x.Name, "bootname": x.BootName, "state": state, "boot-status": boot, "bundle.version": x.Version} {
			of[key] = dbus.MakeVariant(text)
		}
		list = append(list, slotStatus{x.Name, of})
	}
	return list, failed(err)
}
