package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	socket   = "nvidia-gpu.sock"
	poll     = 100 * time.Millisecond
)

// plugin serves a fixed list of devices.
type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
}

// devices are those of so many GPUs: each by its UUID, or by its UUID and a number where it is advertised several times.
func devices(prefix string, gpus, replicas int) []*api.Device {
	var all []*api.Device
	for gpu := range gpus {
		uuid := fmt.Sprintf("GPU-%s-0000-4000-8000-%012d", prefix, gpu)
		for replica := range replicas {
			id := uuid
			if replicas > 1 {
				id = fmt.Sprintf("%s::%d", uuid, replica)
			}
			all = append(all, &api.Device{ID: id, Health: api.Healthy})
		}
	}
	return all
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		var uuids []string
		for _, id := range container.DevicesIds {
			uuid, _, _ := strings.Cut(id, "::")
			uuids = append(uuids, uuid)
		}
		slices.Sort(uuids)
		visible := strings.Join(slices.Compact(uuids), ",")
		log.Printf("%v are %s", container.DevicesIds, visible)
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": visible},
		})
	}
	return response, nil
}

// servePlugin registers with the kubelet whose folder this is, again whenever the kubelet starts: it empties the folder then.
func servePlugin(folder string, devices []*api.Device) {
	own, kubelet := filepath.Join(folder, socket), filepath.Join(folder, "kubelet.sock")
	for {
		if exists(kubelet) {
			serveOnce(own, kubelet, &plugin{devices: devices})
		}
		time.Sleep(poll)
	}
}

// serveOnce serves until the socket is gone.
func serveOnce(own, kubelet string, plugin *plugin) {
	os.Remove(own)
	listener, err := net.Listen("unix", own)
	if err != nil {
		log.Print(err)
		return
	}
	server := grpc.NewServer()
	defer server.Stop()
	api.RegisterDevicePluginServer(server, plugin)
	go server.Serve(listener)
	if !register(own, kubelet) {
		return
	}
	log.Printf("registered %d devices", len(plugin.devices))
	for exists(own) {
		time.Sleep(poll)
	}
}

func register(own, kubelet string) bool {
	connection, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	client := api.NewRegistrationClient(connection)
	request := &api.RegisterRequest{
		Version:      api.Version,
		Endpoint:     socket,
		ResourceName: resource,
		Options:      &api.DevicePluginOptions{},
	}
	for exists(own) {
		if _, err := client.Register(context.Background(), request); err == nil {
			return true
		}
		time.Sleep(poll)
	}
	return false
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
