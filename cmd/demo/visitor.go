package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"grattoir/cmd/internal/counter"
	"grattoir/device/control"
	"grattoir/device/sim"
)

const serveHelp = `
The counter's page: %s   (player: %splayer)
Central's console:  %s   (%s, password %s)
Type a line here and press Enter; a ticket goes under the simulated scanner:
  win, 30, 50, 100, 200      a ticket that wins 20 euros, or as much
  lose, forged, misread      the others
  again                      the last ticket once more
  any digits                 a code of your own
  paper out, paper ok, cover open, cover closed, unplug, plug    the printer
Pay on the page. Slips come out here and as PNG. Ctrl-C ends.
`

// visitor is whoever tries the counter after the series.
type visitor struct {
	d    *demo
	c    *desk
	list *tickets
	last string // digits of the last ticket
}

// serve leaves the counter to the visitor until Ctrl-C.
func (d *demo) serve(ctx context.Context, c *desk, o *counter.Central, list *tickets) error {
	chapter("Your turn (what the clerk reads is French; the page has an English button)")
	say(serveHelp, c.Page, c.Page, "http://"+o.Console+"/", demoUser, demoPassword)
	slips, stop := context.WithCancel(ctx)
	defer stop()
	go d.showSlips(slips, c)
	v := &visitor{d: d, c: c, list: list}
	lines := make(chan string)
	go readLines(ctx, os.Stdin, lines)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-c.Ended():
			return c.Trouble(err)
		case err := <-o.Ended():
			return o.Trouble(err)
		case line, more := <-lines:
			if !more {
				lines = nil
				say("  the input has ended; the page goes on, Ctrl-C ends\n")
				continue
			}
			if err := v.obey(ctx, line); err != nil {
				say("  %v\n", err)
			}
		}
	}
}

// maxLine is the longest line that is taken; the rest of a longer one is dropped.
const maxLine = 4 << 10

// readLines sends each line until in or ctx ends. It may stay in a read for ever: a
// read from a terminal cannot be cut short, and ends with the program.
func readLines(ctx context.Context, in io.Reader, lines chan<- string) {
	defer close(lines)
	r := bufio.NewReaderSize(in, maxLine)
	for {
		line, err := r.ReadSlice('\n')
		text := string(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		if text != "" {
			select {
			case lines <- text:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// showSlips shows each slip as it comes out, and stores its picture.
func (d *demo) showSlips(ctx context.Context, c *desk) {
	for {
		s, err := c.Paper.Next(ctx)
		if err != nil {
			return
		}
		if strings.TrimSpace(s.Text()) == "" {
			continue
		}
		_, _ = indent{os.Stdout}.Write([]byte("\n" + s.Text()))
		list, err := c.Client.Last(ctx)
		if err == nil && len(list) > 0 {
			err = c.picture(ctx, list[0].Number, "slip-"+list[0].Number+".png")
		}
		if err != nil && ctx.Err() == nil {
			say("  the slip's picture: %v\n", err)
		}
	}
}

func (v *visitor) obey(ctx context.Context, line string) error {
	line = strings.ToLower(strings.Join(strings.Fields(line), " "))
	set := func(what string, change func(*sim.State)) error {
		v.c.Paper.Set(change)
		say("  the printer: %s\n", what)
		return nil
	}
	switch line {
	case "":
		return nil
	case "paper out":
		return set("its roll is used up", func(s *sim.State) { s.PaperEnd = true })
	case "paper ok":
		return set("a new roll", func(s *sim.State) { s.PaperEnd = false })
	case "cover open":
		return set("its cover is open", func(s *sim.State) { s.CoverOpen = true })
	case "cover closed":
		return set("its cover is closed", func(s *sim.State) { s.CoverOpen = false })
	case "unplug":
		return v.c.Paper.Unplug()
	case "plug":
		return v.c.Paper.Replug()
	}
	code, err := v.code(line)
	if err != nil {
		return err
	}
	a, err := v.scan(ctx, code)
	if err != nil {
		return err
	}
	v.d.show(a)
	return nil
}

// code turns a word into the digits of a ticket.
func (v *visitor) code(line string) (string, error) {
	cents := map[string]int64{"win": 2000, "lose": 0, "forged": 2000, "misread": 2000}
	prize, word := cents[line]
	if euros, err := strconv.ParseInt(line, 10, 32); err == nil && len(line) <= 7 {
		prize, word = euros*100, true
	}
	_, known := cents[line]
	switch {
	case line == "again" && v.last == "":
		return "", errors.New("nothing was scanned yet")
	case line == "again":
		return v.last, nil
	case !known && !word && strings.Trim(line, "0123456789") != "":
		return "", fmt.Errorf("%.40q is not understood; type win, lose, forged, misread, again, %s, or digits", line, v.amounts())
	case !known && !word:
		v.last = line
		return line, nil
	}
	t, err := v.list.take(prize)
	if err != nil {
		return "", fmt.Errorf("%w; there are %s", err, v.amounts())
	}
	v.last = t.Digits()
	switch line {
	case "misread":
		return misread(t), nil
	case "forged":
		f, err := forged(t)
		return f.Digits(), err
	}
	return v.last, nil
}

// amounts lists the prizes that are left, in euros.
func (v *visitor) amounts() string {
	var left []int64
	for cents, list := range v.list.byPrize {
		if cents > 0 && len(list) > 0 {
			left = append(left, cents/100)
		}
	}
	slices.Sort(left)
	return strings.Trim(fmt.Sprint(left), "[]")
}

// scan puts a code under the scanner. What is no record at all (endless digits, the
// same code within 1.5 s) shows nothing: then the terminal's own state is the answer.
func (v *visitor) scan(ctx context.Context, code string) (control.Answer, error) {
	soon, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	a, err := v.c.Scan(soon, code)
	if err == nil || ctx.Err() != nil {
		return a, err
	}
	st, trouble := v.c.Client.Status(ctx)
	switch {
	case trouble != nil:
		return a, trouble
	case st.Scanner != nil:
		return a, fmt.Errorf("the scanner's driver took no scan: %s %s", st.Scanner.Code, strings.ReplaceAll(st.Scanner.Clerk, "\n", " "))
	}
	return a, errors.New("no scan: the same code within 1.5 s counts once")
}
