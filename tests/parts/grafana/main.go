// Sends one request through the backend of a Grafana data source, as Grafana does, and prints the answer.
//
// Standard input is a JSON document: the data source, its URL and API key, and queries, a resource or a health check.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/instancemgmt"

	jaeger "github.com/grafana/grafana-jaeger-datasource/pkg/jaeger"
	tempo "github.com/grafana/grafana-tempo-datasource/pkg/tempo"
)

type request struct {
	Source   string            `json:"source"`
	URL      string            `json:"url"`
	Key      string            `json:"key"`
	From     time.Time         `json:"from"`
	To       time.Time         `json:"to"`
	Queries  []json.RawMessage `json:"queries"`
	Resource string            `json:"resource"`
	Health   bool              `json:"health"`
}

var sources = map[string]func(context.Context, backend.DataSourceInstanceSettings) (instancemgmt.Instance, error){
	"jaeger": jaeger.NewDatasource,
	"tempo":  tempo.NewDatasource,
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	options := map[string]any{"httpHeaderName1": "Authorization"}
	text, err := json.Marshal(options)
	if err != nil {
		return err
	}
	settings := backend.DataSourceInstanceSettings{
		ID: 1, UID: "neve", Type: asked.Source, Name: asked.Source, URL: asked.URL, JSONData: text,
		DecryptedSecureJSONData: map[string]string{"httpHeaderValue1": "Bearer " + asked.Key},
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	instance, err := sources[asked.Source](ctx, settings)
	if err != nil {
		return err
	}
	plugin := backend.PluginContext{DataSourceInstanceSettings: &settings}
	var answer any
	switch {
	case asked.Health:
		answer, err = instance.(backend.CheckHealthHandler).CheckHealth(ctx, &backend.CheckHealthRequest{PluginContext: plugin})
	case asked.Resource != "":
		answer, err = callResource(ctx, instance.(backend.CallResourceHandler), plugin, asked.Resource)
	default:
		answer, err = query(ctx, instance.(backend.QueryDataHandler), plugin, asked)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

func query(ctx context.Context, handler backend.QueryDataHandler, plugin backend.PluginContext, asked request) (any, error) {
	whole := &backend.QueryDataRequest{PluginContext: plugin}
	for number, text := range asked.Queries {
		var common struct {
			QueryType string `json:"queryType"`
		}
		if err := json.Unmarshal(text, &common); err != nil {
			return nil, err
		}
		whole.Queries = append(whole.Queries, backend.DataQuery{
			RefID: string(rune('A' + number)), QueryType: common.QueryType, MaxDataPoints: 100, Interval: time.Second,
			TimeRange: backend.TimeRange{From: asked.From, To: asked.To}, JSON: text,
		})
	}
	return handler.QueryData(ctx, whole)
}

type resource struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

func callResource(ctx context.Context, handler backend.CallResourceHandler, plugin backend.PluginContext, url string) (any, error) {
	var answer resource
	sender := backend.CallResourceResponseSenderFunc(func(response *backend.CallResourceResponse) error {
		answer = resource{Status: response.Status, Body: response.Body}
		return nil
	})
	path := url
	for place, letter := range url {
		if letter == '?' {
			path = url[:place]
			break
		}
	}
	asked := &backend.CallResourceRequest{PluginContext: plugin, Path: path, URL: url, Method: http.MethodGet}
	err := handler.CallResource(ctx, asked, sender)
	return answer, err
}
