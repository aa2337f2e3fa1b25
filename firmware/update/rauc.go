package update

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// Names of RAUC 1.8 on the bus.
const (
	raucName  = "de.pengutronix.rauc"
	raucFace  = "de.pengutronix.rauc.Installer"
	raucPath  = dbus.ObjectPath("/")
	raucOwned = "org.freedesktop.DBus.NameOwnerChanged"
)

// Rauc is RAUC over D-Bus. It holds no right of its own: the bus's policy says who may call.
type Rauc struct {
	bus *dbus.Conn
	obj dbus.BusObject
}

// Dial connects to RAUC on the bus at an address, "" for the system's.
func Dial(ctx context.Context, address string) (*Rauc, error) {
	connect := func() (*dbus.Conn, error) { return dbus.ConnectSystemBus(dbus.WithContext(ctx)) }
	if address != "" {
		connect = func() (*dbus.Conn, error) { return dbus.Connect(address, dbus.WithContext(ctx)) }
	}
	bus, err := connect()
	if err != nil {
		return nil, fmt.Errorf("the system's bus: %w", err)
	}
	return &Rauc{bus, bus.Object(raucName, raucPath)}, nil
}

// Close ends the connection.
func (r *Rauc) Close() error { return r.bus.Close() }

// raucTimeout bounds a call that installs nothing. Info reads a bundle's signature.
const raucTimeout = 30 * time.Second

// call calls a method and stores what it returns.
func (r *Rauc) call(ctx context.Context, method string, args []any, into ...any) error {
	ctx, cancel := context.WithTimeout(ctx, raucTimeout)
	defer cancel()
	err := r.obj.CallWithContext(ctx, raucFace+"."+method, 0, args...).Store(into...)
	if err != nil {
		return fmt.Errorf("RAUC %s: %w", method, err)
	}
	return nil
}

func (r *Rauc) property(ctx context.Context, name string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, raucTimeout)
	defer cancel()
	var v dbus.Variant
	err := r.obj.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, raucFace, name).Store(&v)
	if err == nil {
		err = dbus.Store([]any{v.Value()}, into)
	}
	if err != nil {
		return fmt.Errorf("RAUC's %s: %w", name, err)
	}
	return nil
}

// Compatible is the board of RAUC's configuration.
func (r *Rauc) Compatible(ctx context.Context) (board string, err error) {
	return board, r.property(ctx, "Compatible", &board)
}

// Slots are the slots that have a name for the boot loader.
func (r *Rauc) Slots(ctx context.Context) ([]Slot, error) {
	var raw []struct {
		Name string
		Of   map[string]dbus.Variant
	}
	if err := r.call(ctx, "GetSlotStatus", nil, &raw); err != nil {
		return nil, err
	}
	list := []Slot{}
	for _, x := range raw {
		text := func(key string) string { s, _ := x.Of[key].Value().(string); return s }
		if text("bootname") == "" {
			continue
		}
		list = append(list, Slot{Name: x.Name, BootName: text("bootname"), Booted: text("state") == "booted", Bootable: text("boot-status") == "good", Version: text("bundle.version")})
	}
	return list, nil
}

// Info verifies a bundle's signature. The errors include ErrBundle where RAUC itself says no.
func (r *Rauc) Info(ctx context.Context, path string) (compatible, version string, err error) {
	err = r.call(ctx, "Info", []any{path}, &compatible, &version)
	if refusal, is := errors.AsType[dbus.Error](err); is && strings.HasPrefix(refusal.Name, "org.gtk.GDBus.UnmappedGError") {
		err = fmt.Errorf("%w: %s", ErrBundle, refusal.Error())
	}
	return compatible, version, err
}

// Busy tells whether RAUC installs something.
func (r *Rauc) Busy(ctx context.Context) (bool, error) {
	var operation string
	err := r.property(ctx, "Operation", &operation)
	return operation != "idle", err
}

// Mark sets a slot's state in the boot loader.
func (r *Rauc) Mark(ctx context.Context, slot string, m Mark) error {
	var name, message string
	return r.call(ctx, "Mark", []any{string(m), slot}, &name, &message)
}

// progressEvery is how often people are told how far RAUC is.
const progressEvery = 2 * time.Second

// Install has RAUC write the spare slot, and waits for its end.
func (r *Rauc) Install(ctx context.Context, path string, progress func(percent int)) error {
	done := make(chan *dbus.Signal, 16)
	r.bus.Signal(done)
	defer r.bus.RemoveSignal(done)
	for _, match := range [][]dbus.MatchOption{
		{dbus.WithMatchInterface(raucFace), dbus.WithMatchMember("Completed")},
		{dbus.WithMatchInterface("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, raucName)},
	} {
		if err := r.bus.AddMatchSignalContext(ctx, match...); err != nil {
			return fmt.Errorf("RAUC: %w", err)
		}
		defer func() { _ = r.bus.RemoveMatchSignal(match...) }() // the connection may be gone
	}
	if err := r.call(ctx, "InstallBundle", []any{path, map[string]dbus.Variant{}}); err != nil {
		return err
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s, open := <-done:
			if ended, err := r.ended(ctx, s, open); ended {
				return err
			}
		case <-tick.C:
			var p struct {
				Percent int32
				Message string
				Depth   int32
			}
			if err := r.property(ctx, "Progress", &p); err != nil {
				return err
			}
			progress(int(p.Percent))
		}
	}
}

// ended tells whether a signal is the end of the installation, and of which kind.
func (r *Rauc) ended(ctx context.Context, s *dbus.Signal, open bool) (bool, error) {
	if !open {
		return true, errors.New("RAUC: the bus has closed the connection")
	}
	switch s.Name {
	case raucOwned: // other names have no match
		if len(s.Body) == 3 && s.Body[0] == raucName && s.Body[2] == "" {
			return true, errors.New("RAUC ended during the installation")
		}
		return false, nil
	case raucFace + ".Completed":
		if result, ok := s.Body[0].(int32); ok && result == 0 {
			return true, nil
		}
		var why string
		if err := r.property(ctx, "LastError", &why); err != nil {
			return true, err
		}
		return true, fmt.Errorf("RAUC: %s", why)
	}
	return false, nil
}
