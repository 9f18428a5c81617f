package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// yamlPlain is text that every YAML reader takes for text as it is, but for yamlWords. All other text is quoted:
// readers of YAML 1.1 take 1e3 and 10:20:30:40:50:10 for numbers.
var yamlPlain = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9 _./-]*[A-Za-z0-9_./-])?$`)

// yamlWords stand for something else in YAML 1.1, in any letter case.
var yamlWords = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// yamlText is a text as YAML has it. The escapes of Go are among those of YAML; no control character is left.
func yamlText(text string) string {
	same := func(word string) bool { return strings.EqualFold(word, text) }
	if yamlPlain.MatchString(text) && !slices.ContainsFunc(yamlWords, same) {
		return text
	}
	return strconv.Quote(text)
}

// toYAML lays a JSON document out in lines. Keys stay in their order and numbers as they are written.
func toYAML(doc []byte) ([]byte, error) {
	y := yamlLayout{d: json.NewDecoder(bytes.NewReader(doc))}
	y.d.UseNumber()
	if err := y.value(yamlTop, 0); err != nil {
		return nil, err
	}
	if _, err := y.d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more text after the document")
	}
	return y.out.Bytes(), nil
}

// yamlPlace is what a value comes after.
type yamlPlace int

const (
	yamlTop yamlPlace = iota
	yamlKey
	yamlDash
)

// yamlLayout reads JSON and writes YAML.
type yamlLayout struct {
	d   *json.Decoder
	out bytes.Buffer
}

// value writes the next value. Indent is that of the key or dash it comes after.
func (y *yamlLayout) value(place yamlPlace, indent int) error {
	token, err := y.d.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		if y.d.More() {
			return y.block(t, place, indent)
		}
		end, err := y.d.Token()
		if err != nil {
			return err
		}
		y.scalar(place, fmt.Sprintf("%s%s", t, end))
	case string:
		y.scalar(place, yamlText(t))
	case nil:
		y.scalar(place, "null")
	default:
		y.scalar(place, fmt.Sprint(t))
	}
	return nil
}

func (y *yamlLayout) scalar(place yamlPlace, text string) {
	if place != yamlTop {
		y.out.WriteByte(' ')
	}
	y.out.WriteString(text + "\n")
}

// block writes an object or list that is not empty. After a dash its first line goes on behind the dash.
func (y *yamlLayout) block(kind json.Delim, place yamlPlace, indent int) error {
	if place == yamlDash || place == yamlKey && kind == '{' {
		indent += 2
	}
	switch place {
	case yamlKey:
		y.out.WriteByte('\n')
	case yamlDash:
		y.out.WriteByte(' ')
	}
	for first := true; y.d.More(); first = false {
		if !first || place == yamlKey {
			y.out.WriteString(strings.Repeat(" ", indent))
		}
		after := yamlDash
		if kind == '{' {
			key, err := y.d.Token()
			if err != nil {
				return err
			}
			y.out.WriteString(yamlText(fmt.Sprint(key)) + ":")
			after = yamlKey
		} else {
			y.out.WriteByte('-')
		}
		if err := y.value(after, indent); err != nil {
			return err
		}
	}
	_, err := y.d.Token() // the closing bracket
	return err
}
