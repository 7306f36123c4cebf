//! Settings of each component.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSecurityContext, SecurityContext, Toleration};

use super::{ClientConfig, Image, PortMapping, Resources, Service, Vpa};
use crate::shard::PluginConfig;

settings! {
    PodGrouper {
        service: Service,
        replicas: i32,
        /// Pods handled at once.
        max_concurrent_reconciles: i64,
        /// Rate limits towards the API server.
        k8s_client_config: ClientConfig,
        args: PodGrouperArgs,
        /// Vertical pod autoscaler of the Deployment.
        vpa: Vpa,
    }
}

settings! {
    /// Settings of the grouper.
    PodGrouperArgs {
        /// Knative revisions are gangs.
        gang_schedule_knative: bool,
        /// Kinds may be described by `Karta` objects.
        generic_karta_fallback: bool,
        /// `ConfigMap` with defaults per kind.
        default_priorities_config_map_name: String,
        default_priorities_config_map_namespace: String,
    }
}

settings! {
    Binder {
        service: Service,
        replicas: i32,
        /// Binds in flight at a time.
        max_concurrent_reconciles: i64,
        /// How long volumes and claims may take.
        volume_binding_timeout_seconds: i64,
        /// Devices are passed by CDI; found out where left out.
        cdi_enabled: bool,
        /// Port of the metrics.
        metrics_port: i64,
        /// Port of the probes.
        probe_port: i64,
        /// Plugins to change or add.
        plugins: BTreeMap<String, PluginConfig>,
        /// Reservation pods.
        resource_reservation: ResourceReservation,
        /// Vertical pod autoscaler of the Deployment.
        vpa: Vpa,
    }
}

settings! {
    /// Pods that hold a device for those who share it.
    ResourceReservation {
        image: Image,
        /// Seconds until a reservation must have its device.
        allocation_timeout: i64,
        namespace: String,
        service_account_name: String,
        /// Value of the label `app` of reservation pods.
        app_label: String,
        runtime_class_name: String,
        /// Their requests and limits; devices are added.
        pod_resources: Resources,
        /// Security context of the pods.
        reservation_pod_security_context: PodSecurityContext,
        /// Security context of the containers.
        reservation_container_security_context: SecurityContext,
        /// What they are given on Jetsons.
        tegra: Tegra,
        /// Folder of nodes with the kubelet's pod-resources socket, which they ask where nothing else works.
        kubelet_pod_resources: String,
        /// They see the processes of their nodes: which pods use a device, and whether their memory is limited.
        observe_processes: bool,
    }
}

settings! {
    /// What reservation pods are given on Jetsons.
    Tegra {
        /// Which nodes are Jetsons: `auto`, `on` or `off`.
        mode: String,
        /// Folders of NVIDIA's libraries.
        library_paths: Vec<String>,
        /// Device files; none: all of `/dev`.
        devices: Vec<String>,
        /// Whether they are privileged: `auto`, `true` or `false`.
        privileged: String,
        /// Only nodes with these labels.
        node_selector: BTreeMap<String, String>,
    }
}

settings! {
    Admission {
        service: Service,
        replicas: i32,
        webhook: AdmissionPorts,
        /// May pods share devices?
        gpu_sharing: bool,
        /// Are pods refused that name visible devices themselves?
        block_nvidia_visible_devices: bool,
        /// Only namespaces with a queue label are looked at.
        queue_label_selector: bool,
        /// Name of the validating registration.
        validating_webhook_configuration_name: String,
        /// Name of the mutating registration.
        mutating_webhook_configuration_name: String,
        /// Runtime class of pods that share devices; empty turns it off.
        gpu_fraction_runtime_class_name: String,
        /// Deprecated name of the same.
        gpu_pod_runtime_class_name: String,
        /// Vertical pod autoscaler of the Deployment.
        vpa: Vpa,
    }
}

settings! {
    AdmissionPorts {
        /// Port of the Service.
        port: i64,
        /// Port of the pods.
        target_port: i64,
        /// Port of the probes.
        probe_port: i64,
        /// Port of the metrics.
        metrics_port: i64,
    }
}

settings! {
    Scheduler {
        service: Service,
        /// Accepted; a Go setting without meaning here.
        #[serde(rename = "GOGC")]
        gogc: i64,
        scheduler_service: SchedulerService,
        replicas: i32,
        /// Vertical pod autoscaler of the Deployment.
        vpa: Vpa,
    }
}

settings! {
    /// The Service of the scheduler.
    SchedulerService {
        /// `ClusterIP`, `NodePort` or `LoadBalancer`.
        #[serde(rename = "type")]
        type_: String,
        /// Port of the Service.
        port: i64,
        /// Port of the pods.
        target_port: i64,
    }
}

settings! {
    /// The queue status controller.
    QueueController {
        service: Service,
        replicas: i32,
        controller_service: ControllerService,
        webhooks: Webhooks,
        /// First part of the metrics' names.
        metrics_namespace: String,
        /// Queue labels that become metric labels, `a=b,c=d`.
        queue_label_to_metric_label: String,
        /// Their values where a queue has none.
        queue_label_to_default_metric_value: String,
        /// Vertical pod autoscaler of the Deployment.
        vpa: Vpa,
    }
}

settings! {
    /// The pod-group status controller.
    PodGroupController {
        service: Service,
        replicas: i32,
        /// Pod groups handled at once.
        max_concurrent_reconciles: i64,
        controller_service: WebhookService,
        webhooks: Webhooks,
        /// Vertical pod autoscaler of the Deployment.
        vpa: Vpa,
    }
}

settings! {
    /// A Service with metrics and webhooks.
    ControllerService {
        /// Port of the metrics.
        metrics: PortMapping,
        /// Port of the webhooks.
        webhook: PortMapping,
    }
}

settings! {
    /// A Service with webhooks.
    WebhookService {
        /// Port of the webhooks.
        webhook: PortMapping,
    }
}

settings! {
    /// Admission webhooks of a controller.
    Webhooks {
        /// Whether the webhook validates objects.
        enable_validation: bool,
        /// First part of the name of the registration.
        webhook_configuration_name_prefix: String,
    }
}

settings! {
    /// The node scale adjuster.
    NodeScaleAdjuster {
        service: Service,
        args: NodeScaleAdjusterArgs,
        /// Vertical pod autoscaler of the Deployment.
        vpa: Vpa,
    }
}

settings! {
    /// Settings of the node scale adjuster.
    NodeScaleAdjusterArgs {
        /// Image of scaling pods.
        scaling_pod_image: Image,
        /// Namespace of scaling pods.
        node_scale_namespace: String,
        /// Service account of scaling pods.
        node_scale_service_account: String,
        /// Devices that a request for device memory counts as.
        gpu_memory_to_fraction_ratio: f64,
        /// Seconds for which a pod has been unschedulable before a scaling pod is made for it.
        unschedulable_grace_period: i64,
    }
}

settings! {
    Prometheus {
        /// Is there an instance of our own?
        enabled: bool,
        instance_name: String,
        /// How long it keeps data.
        retention_period: String,
        /// Accepted; never had an effect.
        sample_interval: String,
        /// Is its storage persistent?
        enable_persistent_storage: bool,
        /// Size of the storage.
        storage_size: String,
        /// Class of the storage.
        storage_class_name: String,
        /// An instance that is there already.
        external_prometheus_url: String,
        /// Health checks of that instance.
        external_prometheus_health_probe: HealthProbe,
        /// Settings of the `ServiceMonitor`.
        service_monitor: ServiceMonitor,
        /// Label on service monitors.
        accounting_label_key: String,
        accounting_label_value: String,
    }
}

settings! {
    /// Health checks of an external Prometheus.
    HealthProbe {
        /// Seconds between two probes.
        interval: i64,
        /// Seconds until a probe failed.
        timeout: i64,
        /// Failures until it counts as away.
        max_retries: i64,
    }
}

settings! {
    /// Settings of the `ServiceMonitor`.
    ServiceMonitor {
        enabled: bool,
        /// Time between two scrapes.
        interval: String,
        /// Time until a scrape failed.
        scrape_timeout: String,
        /// File with the token.
        bearer_token_file: String,
    }
}

settings! {
    /// The NUMA placement exporter.
    NumaPlacementExporter {
        /// How it runs; deployed where a shard uses the `numa` plugin if left out.
        service: Service,
        /// Nodes it runs on.
        node_selector: BTreeMap<String, String>,
        /// Taints that the pods tolerate.
        tolerations: Vec<Toleration>,
        /// Time between two looks.
        poll_interval: String,
        /// Time between two full looks.
        drift_resync_interval: String,
        /// Folder of the kubelet's socket.
        pod_resources_host_path: String,
        pod_resources_socket: String,
        /// Where sysfs is on the host.
        sysfs_host_path: String,
    }
}
