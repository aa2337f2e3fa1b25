// Package stationery makes the receipt printer's settings from a terminal's configuration: its
// profile, which may be a technician's own, and the logo of its slips. Terminald and
// terminalctl share it, so that a test slip is what a receipt will be.
package stationery

import (
	"fmt"
	"image"
	"time"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/device/printer"
)

// What is read from a file at most.
const (
	maxProfiles = 64 << 10
	maxLogo     = 1 << 20
)

// Config is the printer's line and model. Its errors name the key of the configuration,
// and in a file of profiles the line and column.
func Config(c configs.Terminal) (printer.Config, error) {
	p, err := profile(c.Printer)
	if err != nil {
		return printer.Config{}, err
	}
	if c.Printer.DrawerPin != 0 && !p.Drawer {
		return printer.Config{}, fmt.Errorf("printer.drawer_pin: profile %q has no drawer socket; where this very printer has one, say drawer = true in a profile of your own (printer.profiles)", p.Name)
	}
	return printer.Config{Path: c.Printer.Path, Baud: c.Printer.Baud, Flow: printer.Flow(c.Printer.Flow), Profile: p,
		Drawer: printer.Drawer{Pin: c.Printer.DrawerPin, Pulse: time.Duration(c.Printer.DrawerPulseMS) * time.Millisecond}}, nil
}

func profile(c configs.Printer) (printer.Profile, error) {
	list := printer.Profiles()
	if c.Profiles != "" {
		text, err := cli.ReadBounded(c.Profiles, maxProfiles)
		if err != nil {
			return printer.Profile{}, fmt.Errorf("printer.profiles: %w", err)
		}
		list, err = printer.ReadProfiles(list, func(into any) error { return configs.Decode(c.Profiles, text, into) })
		if err != nil {
			return printer.Profile{}, fmt.Errorf("printer.profiles %s: %w", c.Profiles, err)
		}
	}
	p, err := printer.FindProfile(list, c.Profile)
	if err != nil {
		return p, fmt.Errorf("printer.profile: %w", err)
	}
	return p, nil
}

// Logo is the picture on top of slips as profile p prints it, or nil for none.
func Logo(c configs.Terminal, p printer.Profile) (image.Image, error) {
	if c.Shop.Logo == "" {
		return nil, nil
	}
	text, err := cli.ReadBounded(c.Shop.Logo, maxLogo)
	if err != nil {
		return nil, fmt.Errorf("shop.logo: %w", err)
	}
	logo, err := printer.ReadLogo(text, p)
	if err != nil {
		return nil, fmt.Errorf("shop.logo %s: %w", c.Shop.Logo, err)
	}
	return logo, nil
}
